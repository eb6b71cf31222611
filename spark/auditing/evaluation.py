"""Brings a fact to the snapshot and compares it with the counts there, as Spark columns. Pure."""

from __future__ import annotations

from collections.abc import Collection, Set

from common import exact_sums
from common.errors import AuditIncomplete
from counting.counts import NO_NUMBER
from deltas.rules import FactChanges
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from auditing.report import Comparison, Difference, LeftOut, NotFinite, Total
from waltally.facts import Fact

CORRECTED = 10_000
"""A roll-up is recounted over a fact with at most so many wrong values."""


def uncounted(counts: DataFrame, fact: Fact) -> tuple[list[LeftOut], list[NotFinite]]:
    """Return how many rows of each table cannot be counted, and why; and which numbers are none."""
    found = (
        counts.where("reason is not null")
        .groupBy("part", "reason", sql.when(sql.col("reason") == NO_NUMBER, sql.col("example")))
        .agg(sql.sum("row_count"))
        .collect()
    )
    rows: list[LeftOut] = []
    numbers: list[NotFinite] = []
    for part, reason, column, count in sorted(found, key=str):
        table = str(fact.part(part).table)
        if column is None:
            rows.append(LeftOut(table, reason, count))
        else:
            numbers.append(NotFinite(table, column, count))
    return rows, numbers


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
    both = exact_sums.both(fact, forward, counted(counts, archived, fact)).persist()
    found = differences(both, fact, uncertain)
    group_count, totals = exact_sums.measured(both, fact, "left", "right")
    difference_count = found.count()
    listed = []
    if difference_count:
        size = sql.abs(sql.col("fact").cast("double") - sql.col("counted").cast("double"))
        first = max(limit, CORRECTED)
        listed = found.orderBy(size.desc(), "measure", "dimensions").limit(first).collect()
    wrong = [
        Difference(
            dict(zip(names(fact), row["dimensions"], strict=True)),
            row["measure"],
            row["fact"],
            row["counted"],
        )
        for row in listed
    ]
    return Comparison(
        group_count,
        {
            measure.name: Total(totals["left"][place], totals["right"][place])
            for place, measure in enumerate(fact.measures)
        },
        difference_count,
        wrong[:limit],
        wrong,
    )


def names(fact: Fact) -> list[str]:
    """Return the names of the dimensions."""
    return [each.name for each in fact.dimensions]


def archived_totals(archived: DataFrame, fact: Fact) -> dict[str, str]:
    """Return by measure that keeps what was deleted from a table how much that is."""
    kept = {part.name for part in fact.tables if part.ignores_deletes}
    if not kept:
        return {}
    _, totals = exact_sums.measured(archived, fact, "sums")
    found = zip(fact.measures, totals["sums"], strict=True)
    return {measure.name: total for measure, total in found if kept & set(measure.of)}


def brought_forward(rows: DataFrame, changes: FactChanges) -> DataFrame:
    """Return the fact's rows with the changes applied, as dbt would apply them.

    Raises AuditIncomplete where a TRUNCATE took away a part of a measure that has other parts:
    the fact does not know how much that was.
    """
    if changes.fact.kind == "current_rows":
        return changes.applied_to(rows, "dimensions")
    return moved(rows, changes.deltas(), changes.fact, changes.truncates.keys())


def moved(rows: DataFrame, deltas: DataFrame, fact: Fact, truncated: Set[str]) -> DataFrame:
    """Return the fact after `deltas`, which have part, dimensions and sums.

    A part in `truncated` starts from zero; its deltas are those after the TRUNCATE.
    Raises AuditIncomplete as brought_forward does.
    """
    kept = []
    for place, measure in enumerate(fact.measures):
        lost = sorted(truncated & set(measure.of))
        if lost and len(lost) < len(measure.of):
            raise AuditIncomplete(
                f"{fact.part(lost[0]).table} was truncated after {fact.relation} was built, and"
                f" {measure.name} adds up other tables too",
                "`dbt build`, then the audit again",
            )
        kept.append(sql.lit("0") if lost else sql.get("sums", place))
    before = rows.select("dimensions", sql.array(*kept).alias("sums"))
    return exact_sums.summed(before.unionByName(deltas.drop("part")), fact, "dimensions")


def counted(counts: DataFrame, archived: DataFrame, fact: Fact) -> DataFrame:
    """Return the counts of the stored rows and the archived deletes as a fact has them."""
    rows = counts.where("reason is null").select("dimensions", "sums")
    return exact_sums.summed(
        rows.unionByName(archived.select("dimensions", "sums")), fact, "dimensions"
    )


def differences(both: DataFrame, fact: Fact, uncertain: Collection[str]) -> DataFrame:
    """Return a row per wrong value: dimensions, `measure`, `fact` and `counted` as number texts.

    `both` has the fact's sums as `left` and the counts' as `right`. Of the measures in `uncertain`
    rows went with a partition: a count may be larger than counted, and a sum is not compared.
    """
    pairs = [
        sql.struct(
            sql.lit(measure.name).alias("measure"),
            sql.get("left", place).alias("fact"),
            sql.get("right", place).alias("counted"),
            sql.lit(measure.name in uncertain).alias("is_uncertain"),
            sql.lit(measure.kind == "count").alias("is_count"),
        )
        for place, measure in enumerate(fact.measures)
    ]
    is_below = sql.when(
        sql.col("is_count"), sql.expr("cast(fact as bigint) < cast(counted as bigint)")
    ).otherwise(sql.lit(False))
    return (
        both.select("dimensions", sql.explode(sql.array(*pairs)).alias("pair"))
        .select("dimensions", "pair.*")
        .where("fact <> counted")
        .where(~sql.col("is_uncertain") | is_below)
        .select("dimensions", "measure", "fact", "counted")
    )
