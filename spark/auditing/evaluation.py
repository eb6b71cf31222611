"""Brings the fact to the snapshot's position and compares it with the counts there.

Pure: DataFrames in, a Comparison out; no driver.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from counting.counts import COLUMNS
from deltas import rules
from facts.rejected import Rejected
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from auditing import comparing
from auditing.report import Comparison, Difference, LeftOut, Total
from waltally.tables import Table

if TYPE_CHECKING:
    from auditing.purged_rows import PurgedRows


def brought_forward(rows: DataFrame, log: DataFrame, tables: tuple[Table, ...]) -> DataFrame:
    """Return the fact's rows with the changes in `log` applied, as dbt would apply them."""
    live, archive = map(str, tables)
    truncated = {row["part"] for row in rules.last_truncates(log, live, archive).collect()}
    return comparing.moved(rows, rules.signed_deltas(log, live, archive), truncated)


def rejected(log: DataFrame, tables: tuple[Table, ...]) -> Rejected:
    """Return how many of the changes in `log` cannot be counted."""
    live, archive = map(str, tables)
    row = (
        rules.rejected_changes(log, live, archive)
        .agg(sql.count("*").alias("count"), sql.min("commit_lsn").alias("first_lsn"))
        .first()
    )
    assert row is not None
    return Rejected(row["count"], row["first_lsn"])


def left_out(counts: DataFrame) -> list[LeftOut]:
    """Return how many rows of each table cannot be counted, and why."""
    found = (
        counts.where("reason is not null")
        .groupBy("source_table", "reason")
        .agg(sql.sum("row_count").alias("row_count"))
        .orderBy("source_table", "reason")
    )
    return [LeftOut(**row.asDict()) for row in found.collect()]


def compare_fact(
    rows: DataFrame,
    forward: DataFrame,
    counts: DataFrame,
    purged: PurgedRows,
    tables: tuple[Table, ...],
    limit: int,
) -> Comparison:
    """Compare the fact with the counts of the tables' rows.

    `rows` is the fact as it was read and `forward` the same at the snapshot's position. The counts
    of `forward` are compared with `counts`, as count_groups returns them; the `total` of `rows` is
    compared with its own parts. The largest `limit` differences are listed, largest first.
    """
    feeds = dict(zip(map(str, tables), comparing.PARTS, strict=True))
    countable = counts.where("reason is null").select(*COLUMNS)
    expected = comparing.counted(countable, purged.rows, feeds)
    both = comparing.compared(forward, expected).persist()
    found = comparing.differences(both, purged.archived).unionAll(
        comparing.wrong_totals(rows, likelier_reading(rows))
    )
    size = sql.abs(found["fact"] - found["counted"])
    largest = found.orderBy(size.desc(), *found.columns).limit(limit).collect()
    row = both.agg(
        sql.count("*").alias("groups"),
        *(sql.coalesce(sql.sum(name), sql.lit(0)).alias(name) for name in both.columns[4:]),
    ).first()
    assert row is not None
    return Comparison(
        row["groups"],
        Total(row["live"], row["counted_live"]),
        Total(row["archived"], row["counted_archived"]),
        found.count(),
        [Difference(**each.asDict()) for each in largest],
        found.where("column = 'archived_count' and fact > counted").count(),
    )


def likelier_reading(rows: DataFrame) -> str:
    """Return the reading of `total` that fewer rows contradict; `both` where they are equal."""
    row = comparing.readings(rows).first()
    assert row is not None
    wrong = row.asDict()
    return min(wrong, key=lambda name: wrong[name])
