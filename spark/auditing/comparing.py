"""Applies changes to a fact and compares it with counts. Pure: DataFrame to DataFrame, no driver.

Frames of groups are as deltas.sums has them: `dimensions` and `sums`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Set

from common.errors import AuditIncomplete
from deltas import current_rows, rules, sums
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from waltally.facts import Fact


def brought_forward(
    rows: DataFrame, classified: DataFrame, truncates: Mapping[str, rules.Position], fact: Fact
) -> DataFrame:
    """Return the fact's rows with the changes applied, as dbt would apply them.

    `classified` has the changes as rules.classify does, `truncates` the last of each part.
    Raises AuditIncomplete where a TRUNCATE took away a part of a measure that has other parts:
    the fact does not know how much that was.
    """
    if fact.kind == "current_rows":
        return current_rows.applied(rows, classified, fact)
    return moved(rows, rules.deltas_after(classified, truncates, fact), fact, truncates.keys())


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
    return sums.summed(before.unionByName(deltas.drop("part")), fact, "dimensions")


def counted(counts: DataFrame, archived: DataFrame, fact: Fact) -> DataFrame:
    """Return the counts of the stored rows and the archived deletes as a fact has them."""
    rows = counts.where("reason is null").select("dimensions", "sums")
    return sums.summed(rows.unionByName(archived.select("dimensions", "sums")), fact, "dimensions")


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
