"""Computes the fact from a baseline and changes. Pure: DataFrame to DataFrame, no driver."""

from __future__ import annotations

from deltas import rules
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql

from waltally.tables import DIMENSIONS

COLUMNS = ("id", *DIMENSIONS, "count", "live_count", "archived_count")
COUNTS = ("count", "live_count", "archived_count")


def replayed(
    baseline: DataFrame, changes: DataFrame, live: str, archive: str, count_archived: bool = True
) -> DataFrame:
    """Return the fact of the baseline and every change after it, with the columns COLUMNS.

    `live` and `archive` are the counted tables as LOADER_TABLES names them. Groups of which both
    parts are zero are left out; the fact may keep such rows.
    """
    table = sql.col("source_table")
    seeded = baseline.select(
        sql.when(table == live, "live").when(table == archive, "archived").alias("part"),
        *DIMENSIONS,
        sql.col("row_count").alias("delta"),
    ).where("part is not null")
    # A TRUNCATE cancels everything before it, in the changes and in the baseline.
    kept = seeded.join(
        sql.broadcast(rules.last_truncates(changes, live, archive).select("part")),
        "part",
        "left_anti",
    )
    totals = (
        kept.unionByName(rules.signed_deltas(changes, live, archive))
        .groupBy(*DIMENSIONS)
        .agg(_total("live"), _total("archived"))
        .where("live_count <> 0 or archived_count <> 0")
    )
    both = sql.col("live_count") + sql.col("archived_count")
    counted = both if count_archived else sql.col("live_count")
    return totals.select(
        row_id().alias("id"),
        *DIMENSIONS,
        sql.greatest(counted, sql.lit(0).cast("long")).alias("count"),
        "live_count",
        "archived_count",
    )


def differences(fact: DataFrame, replay: DataFrame) -> DataFrame:
    """Return the groups whose counts differ: the dimensions, then fact_ and replay_ of each count.

    A group that only one of them has is zero in the other.
    """
    sides = [
        side.select(*DIMENSIONS, *(sql.col(name).alias(f"{label}_{name}") for name in COUNTS))
        for label, side in (("fact", fact), ("replay", replay))
    ]
    joined = sides[0].join(sides[1], list(DIMENSIONS), "full")
    filled = joined.na.fill(0, [f"{side}_{name}" for side in ("fact", "replay") for name in COUNTS])
    return filled.where(" or ".join(f"fact_{name} <> replay_{name}" for name in COUNTS))


def row_id() -> Column:
    """Return the id that the fact gives the group: md5(row(service_id, ...)::text)::uuid."""
    text = sql.concat(sql.lit("("), sql.concat_ws(",", *map(_in_row, DIMENSIONS)), sql.lit(")"))
    return sql.regexp_replace(sql.md5(text), "^(.{8})(.{4})(.{4})(.{4})(.{12})$", "$1-$2-$3-$4-$5")


def _in_row(name: str) -> Column:
    """Return the value as PostgreSQL prints it within a row."""
    value = sql.col(name)
    doubled = sql.regexp_replace(value, r'(["\\])', "$1$1")
    needs_quotes = (value == "") | value.rlike(r'[ \t\n\x0B\f\r"\\(),]')
    return sql.when(needs_quotes, sql.concat(sql.lit('"'), doubled, sql.lit('"'))).otherwise(value)


def _total(part: str) -> Column:
    # Rows of the other part add zero, so that the sum is never null.
    mine = sql.when(sql.col("part") == part, sql.col("delta")).otherwise(sql.lit(0))
    return sql.sum(mine).alias(f"{part}_count")
