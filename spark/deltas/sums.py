"""Adds up groups exactly. Pure: DataFrame to DataFrame, no driver.

Groups have `dimensions`, an array of texts, and `sums`, an array with a number text per measure.
"""

from __future__ import annotations

from common import exact_sums
from common.typed_values import LONGEST
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql

from waltally.facts import Fact

_TOTAL = "total_of_"


def summed(rows: DataFrame, fact: Fact, *by: str) -> DataFrame:
    """Return the exact sums of each measure by these columns: `by` and `sums`."""
    found = rows.groupBy(*by).agg(*_totals(fact, "sums"))
    return found.select(*by, _texts(fact, "sums").alias("sums"))


def both(fact: Fact, left: DataFrame, right: DataFrame) -> DataFrame:
    """Return the groups of both sides: dimensions, and each side's sums as `left` and `right`.

    A group that only one of them has is zero in the other.
    """
    nothing = _zeros(fact)
    sides = left.select("dimensions", sql.col("sums").alias("left"), nothing.alias("right"))
    other = right.select("dimensions", nothing.alias("left"), sql.col("sums").alias("right"))
    found = (
        sides.unionByName(other)
        .groupBy("dimensions")
        .agg(*_totals(fact, "left"), *_totals(fact, "right"))
    )
    return found.select(
        "dimensions", *(_texts(fact, name).alias(name) for name in ("left", "right"))
    )


def totals(rows: DataFrame, fact: Fact) -> list[str]:
    """Return the exact sum of each measure over all rows."""
    return measured(rows, fact, "sums")[1]["sums"]


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
        total = sql.sum(text.cast("bigint")) if is_count else exact_sums.sum_of(text)
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
            text = exact_sums.sum_text(total)
            found.append(sql.regexp_replace(text, r"(\.[0-9]*[1-9])0+$|\.0+$", "$1"))
    return sql.array(*found)


def _minus(text: Column) -> Column:
    bare = sql.substring(text, 2, LONGEST)
    return sql.when(text.startswith("-"), bare).otherwise(sql.concat(sql.lit("-"), text))
