"""Sums and products of numbers of any size, without rounding. Pure.

Spark's own decimals have 38 digits.

A number that is not longer than 28 digits on each side of the point is added as two whole numbers,
which 10,000,000,000 rows do not overflow. Longer ones are kept as texts and added at the end.

Groups have `dimensions`, an array of texts, and `sums`, an array with a number text per measure.
"""

from __future__ import annotations

from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.types import StringType

from waltally.facts import Fact

_DIGITS = 28
_SHORT = rf"^-?[0-9]{{1,{_DIGITS}}}(\.[0-9]{{1,{_DIGITS}}})?\z"
EXACT = Context(prec=40_000, Emax=MAX_EMAX, Emin=MIN_EMIN)
"""Rounds no number that a database has."""


def sum_of(text: Column) -> Column:
    """Return the aggregate of numbers given as texts; null adds nothing. See `sum_text`."""
    is_short = text.rlike(_SHORT)
    sign = sql.when(text.startswith("-"), -1).otherwise(1).cast("decimal(1, 0)")
    decimals = sql.when(text.contains("."), sql.substring_index(text, ".", -1)).otherwise("")
    whole = sql.substring_index(text, ".", 1).try_cast(f"decimal({_DIGITS}, 0)")
    fraction = sql.rpad(decimals, _DIGITS, "0").try_cast(f"decimal({_DIGITS}, 0)")
    signed = (fraction * sign).try_cast(f"decimal({_DIGITS}, 0)")
    return sql.struct(
        sql.sum(sql.when(is_short, whole)).alias("whole"),
        sql.sum(sql.when(is_short, signed)).alias("fraction"),
        sql.max(sql.when(is_short, sql.length(decimals))).alias("scale"),
        sql.collect_list(sql.when(~is_short, text)).alias("long"),
    )


def sum_text(total: Column) -> Column:
    """Return the text of an aggregate of `sum_of`, with as many decimals as PostgreSQL gives it."""
    text = sql.udf(_text, StringType(), useArrow=False)
    return text(total["whole"], total["fraction"], total["scale"], total["long"])


def add(numbers: list[str]) -> str:
    """Return the exact sum of the texts as a text without an exponent."""
    total = Decimal(0)
    for number in numbers:
        total = EXACT.add(total, Decimal(number))
    return f"{total:f}" if total else f"{abs(total):f}"


def _text(
    whole: Decimal | None, fraction: Decimal | None, scale: int | None, long: list[str]
) -> str:
    if whole is None or fraction is None or scale is None:
        return add(long)
    total = int(whole) * 10**_DIGITS + int(fraction)
    digits = str(abs(total)).rjust(_DIGITS + 1, "0")
    end = len(digits) - _DIGITS
    text = digits[:end] + ("." + digits[end : end + scale] if scale else "")
    signed = f"-{text}" if total < 0 else text
    return add([signed, *long]) if long else signed


_TOTAL = "total_of_"


def summed(rows: DataFrame, fact: Fact, *by: str) -> DataFrame:
    """Return the exact sums of each measure by these columns: `by` and `sums`."""
    found = rows.groupBy(*by).agg(*_totals(fact, "sums"))
    return found.select(*by, _texts(fact, "sums").alias("sums"))


def measured(rows: DataFrame, fact: Fact, *names: str) -> tuple[int, dict[str, list[str]]]:
    """Return the number of rows, and the exact sums of the number texts in these columns."""
    aggregates = [total for name in names for total in _totals(fact, name)]
    row = (
        rows.agg(sql.count("*").alias("row_count"), *aggregates)
        .select("row_count", *(_texts(fact, name).alias(name) for name in names))
        .first()
    )
    assert row is not None
    return row["row_count"], {name: [text or "0" for text in row[name]] for name in names}


def negated(sums: Column, sign: Column) -> Column:
    """Return the number texts times a sign, 1 or -1."""
    return sql.when(sign < 0, sql.transform(sums, _minus)).otherwise(sums)


def is_nothing(fact: Fact) -> Column:
    """Return whether all of `sums` are zero; they must be sums of `summed`."""
    return sql.col("sums") == _zeros(fact)


def _zeros(fact: Fact) -> Column:
    return sql.array(*(sql.lit("0") for _ in fact.measures))


def _totals(fact: Fact, name: str) -> list[Column]:
    """Return the aggregates of the number texts in a column."""
    found = []
    for place, measure in enumerate(fact.measures):
        text = sql.get(name, place)
        is_count = measure.kind == "count"
        total = sql.sum(text.cast("bigint")) if is_count else sum_of(text)
        found.append(total.alias(f"{_TOTAL}{name}_{place}"))
    return found


def _texts(fact: Fact, name: str) -> Column:
    """Return the number texts of the aggregates, each number in one spelling."""
    found = []
    for place, measure in enumerate(fact.measures):
        total = sql.col(f"{_TOTAL}{name}_{place}")
        if measure.kind == "count":
            found.append(total.cast("string"))
        else:
            text = sum_text(total)
            found.append(sql.regexp_replace(text, r"(\.[0-9]*[1-9])0+$|\.0+$", "$1"))
    return sql.array(*found)


def _minus(text: Column) -> Column:
    bare = sql.regexp_replace(text, "^-", "")
    return sql.when(text.startswith("-"), bare).otherwise(sql.concat(sql.lit("-"), text))
