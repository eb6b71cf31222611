"""Compares a fact, brought to the snapshot's position, with the counts there.

Pure: DataFrames in, a Comparison out; no driver.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from deltas import rules, sums
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql
from warehouse.rejected import Rejected

from auditing import comparing
from auditing.report import Comparison, Difference, LeftOut, Total
from waltally.facts import Fact


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
    forward: DataFrame,
    counts: DataFrame,
    archived: DataFrame,
    uncertain: Collection[str],
    fact: Fact,
    limit: int,
) -> Comparison:
    """Compare the fact at the snapshot's position with the counts of the tables' rows.

    `counts` has part, dimensions, row_count, sums and reason, `archived` the deletes that the fact
    ignored. Of the measures in `uncertain` more rows went. The largest `limit` differences are
    listed, largest first.
    """
    both = sums.both(fact, forward, comparing.counted(counts, archived, fact)).persist()
    found = comparing.differences(both, fact, uncertain).persist()
    group_count, totals = sums.measured(both, fact, "left", "right")
    difference_count = found.count()
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
    )


def names(fact: Fact) -> list[str]:
    """Return the names of the dimensions."""
    return [each.name for each in fact.dimensions]


def archived_totals(archived: DataFrame, fact: Fact) -> dict[str, str]:
    """Return by measure that keeps what was deleted from a table how much that is."""
    kept = {part.name for part in fact.tables if part.deletes == "ignore"}
    if not kept:
        return {}
    totals = zip(fact.measures, sums.totals(archived, fact), strict=True)
    return {measure.name: total for measure, total in totals if kept & set(measure.of)}
