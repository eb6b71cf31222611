"""Sums and products of numbers of any size, without rounding. Pure.

Spark's own decimals have 38 digits.

A number that is not longer than 28 digits on each side of the point is added as two whole numbers,
which 10,000,000,000 rows do not overflow. Longer ones are kept as texts and added at the end.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal

from pyspark.sql import Column
from pyspark.sql import functions as sql
from pyspark.sql.types import BooleanType, StringType

_DIGITS = 28
_SHORT = rf"^-?[0-9]{{1,{_DIGITS}}}(\.[0-9]{{1,{_DIGITS}}})?\z"
_EXACT = Context(prec=40_000, Emax=MAX_EMAX, Emin=MIN_EMIN)


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


def product(one: Column, other: Column) -> Column:
    """Return the text of the exact product of two number texts; null for null."""
    return sql.udf(_product, StringType(), useArrow=False)(one, other)


def is_at_least(text: Column, bound: str) -> Column:
    """Return whether a number text is not below a number; null for null."""
    compared = sql.udf(
        lambda number: number and Decimal(number) >= Decimal(bound), BooleanType(), useArrow=False
    )
    return compared(text)


def lower_bound(text: Column, bounds: Sequence[str]) -> Column:
    """Return the last of ascending bounds that a number text is not below; null below the first."""
    numbers = [Decimal(bound) for bound in bounds]

    def found(number: str | None) -> str | None:
        place = bisect_right(numbers, Decimal(number)) if number else 0
        return bounds[place - 1] if place else None

    return sql.udf(found, StringType(), useArrow=False)(text)


def add(numbers: list[str]) -> str:
    """Return the exact sum of the texts as a text without an exponent."""
    total = Decimal(0)
    for number in numbers:
        total = _EXACT.add(total, Decimal(number))
    return f"{total:f}" if total else f"{abs(total):f}"


def _product(one: str | None, other: str | None) -> str | None:
    return one and other and f"{_EXACT.multiply(Decimal(one), Decimal(other)):f}"


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
