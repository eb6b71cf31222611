"""Compares a fact, brought to the snapshot's position, with the counts there.

Pure: DataFrames in, a Comparison out; no driver.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from deltas import rules, sums
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql
from warehouse.rejected import Rejected

from auditing import comparing
from auditing.report import Comparison, Difference, LeftOut, Total
from waltally.facts import Fact

if TYPE_CHECKING:
    from warehouse.logged_purges import PurgedRows


def rejected(classified: DataFrame) -> Rejected:
    """Return how many of the changes, as rules.classify has them, cannot be counted."""
    row = (
        rules.rejected_changes(classified)
        .agg(sql.count("*").alias("count"), sql.min("commit_lsn").alias("first_lsn"))
        .first()
    )
    assert row is not None
    return Rejected(row["count"], row["first_lsn"])


def left_out(counts: DataFrame, facts: Sequence[Fact]) -> dict[str, list[LeftOut]]:
    """Return by fact how many rows of each table cannot be counted, and why."""
    found = (
        counts.where("reason is not null")
        .groupBy("fact", "part", "reason")
        .agg(sql.sum("row_count").alias("row_count"))
        .collect()
    )
    return {
        fact.name: [
            LeftOut(str(fact.part(row["part"]).table), row["reason"], row["row_count"])
            for row in sorted(found)
            if row["fact"] == fact.name
        ]
        for fact in facts
    }


def compare_fact(
    forward: DataFrame, counts: DataFrame, purged: PurgedRows, fact: Fact, limit: int
) -> Comparison:
    """Compare the fact at the snapshot's position with the counts of the tables' rows.

    `counts` has part, dimensions, row_count, sums and reason. The largest `limit` differences are
    listed, largest first.
    """
    both = sums.both(fact, forward, comparing.counted(counts, purged.rows, fact)).persist()
    found = comparing.differences(both, fact, purged.uncertain(fact)).persist()
    group_count, totals = sums.measured(both, fact, "left", "right")
    kept = sql.col("measure").isin(list(ignoring(fact)))
    is_above = kept & sql.expr("cast(fact as double) > cast(counted as double)")
    counted = found.agg(sql.count("*"), sql.count_if(is_above)).first()
    assert counted is not None
    difference_count, above_count = counted
    listed = []
    if difference_count:
        size = sql.abs(sql.col("fact").cast("double") - sql.col("counted").cast("double"))
        listed = found.orderBy(size.desc(), "measure", "dimensions").limit(limit).collect()
    return Comparison(
        group_count,
        {
            measure.name: Total(totals["left"][place], totals["right"][place])
            for place, measure in enumerate(fact.measures)
        },
        difference_count,
        [
            Difference(
                dict(zip(names(fact), row["dimensions"], strict=True)),
                row["measure"],
                row["fact"],
                row["counted"],
            )
            for row in listed
        ],
        above_count,
    )


def names(fact: Fact) -> list[str]:
    """Return the names of the dimensions."""
    return [each.name for each in fact.dimensions]


def ignoring(fact: Fact) -> Collection[str]:
    """Return the measures that keep what was deleted from a table."""
    kept = {part.name for part in fact.tables if part.deletes == "ignore"}
    return [measure.name for measure in fact.measures if kept & set(measure.of)]
