"""Applies deltas to a fact and compares it with counts. Pure: DataFrame to DataFrame, no driver.

A fact has the four dimensions, `live_count` and `archived_count`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql

from auditing.report import Archived
from waltally.tables import DIMENSIONS

PARTS = ("live", "archived")


def moved(fact: DataFrame, deltas: DataFrame, truncated: Collection[str]) -> DataFrame:
    """Return the fact after `deltas`, which have part, dimensions and the net sum.

    A part in `truncated` starts from zero; its deltas are those after the TRUNCATE.
    """
    kept = {f"{part}_count": sql.lit(0) for part in PARTS if part in truncated}
    came = deltas.select(
        *DIMENSIONS,
        *(_where(deltas["part"] == part, deltas["delta"], f"{part}_count") for part in PARTS),
    )
    return _summed(fact.withColumns(kept).select(*came.columns), came)


def counted(counts: DataFrame, purged: DataFrame, tables: Mapping[str, str]) -> DataFrame:
    """Return the counts of stored and of purged rows as a fact.

    `tables` has the part that each source table feeds.
    """
    source = counts["source_table"]
    nothing = sql.lit(0).cast("bigint")
    return _summed(
        counts.select(
            *DIMENSIONS,
            *(
                _where(source == table, counts["row_count"], f"{part}_count")
                for table, part in tables.items()
            ),
        ),
        purged.select(
            *DIMENSIONS, nothing.alias("live_count"), purged["purged_count"].alias("archived_count")
        ),
    )


def compared(fact: DataFrame, counts: DataFrame) -> DataFrame:
    """Return the groups of both, with the fact's `live` and the counts' `counted_live`, etc."""
    nothing = sql.lit(0).cast("bigint")
    both = [
        frame.select(
            *DIMENSIONS,
            *((frame[f"{part}_count"] if frame is fact else nothing).alias(part) for part in PARTS),
            *(
                (frame[f"{part}_count"] if frame is counts else nothing).alias(f"counted_{part}")
                for part in PARTS
            ),
        )
        for frame in (fact, counts)
    ]
    return _summed(*both)


def differences(both: DataFrame, archived: Archived) -> DataFrame:
    """Return a row per wrong count: dimensions, `column`, `fact` and `counted`.

    Where not all purged rows are known, an archived count may be larger than counted.
    """
    may_be_above = {"live": False, "archived": archived == "at-least"}
    found = []
    for part in PARTS:
        fact, count = both[part], both[f"counted_{part}"]
        wrong = fact < count if may_be_above[part] else fact != count
        found.append(_difference(both.where(wrong), f"{part}_count", fact, count))
    return reduce(DataFrame.unionAll, found)


def readings(fact: DataFrame) -> DataFrame:
    """Return one row: in how many groups each reading of `total` is wrong.

    `total` is the sum of both parts, or the live part where the dbt variable count_archived is
    false.
    """
    return fact.agg(
        *(
            sql.count(sql.when(fact["total"] != total, True)).alias(name)
            for name, total in _totals(fact).items()
        )
    )


def wrong_totals(fact: DataFrame, reading: str) -> DataFrame:
    """Return the rows whose `total` is wrong under this reading, as `differences` does."""
    expected = _totals(fact)[reading]
    wrong = fact.where(fact["total"] != expected)
    return _difference(wrong, "count", fact["total"], expected)


def _totals(fact: DataFrame) -> dict[str, Column]:
    both = fact["live_count"] + fact["archived_count"]
    nothing = sql.lit(0).cast("bigint")
    return {
        "both": sql.greatest(both, nothing),
        "live": sql.greatest(fact["live_count"], nothing),
    }


def _difference(rows: DataFrame, column: str, fact: Column, counted: Column) -> DataFrame:
    return rows.select(
        *DIMENSIONS, sql.lit(column).alias("column"), fact.alias("fact"), counted.alias("counted")
    )


def _where(condition: Column, value: Column, name: str) -> Column:
    return sql.when(condition, value).otherwise(0).alias(name)


def _summed(*frames: DataFrame) -> DataFrame:
    """Return the sums of all other columns per group."""
    rows = reduce(DataFrame.unionByName, frames)
    numbers = [name for name in rows.columns if name not in DIMENSIONS]
    return rows.groupBy(*DIMENSIONS).agg(*(sql.sum(name).alias(name) for name in numbers))
