"""Rows that went with a dropped or truncated partition of a table whose deletes a fact ignores.

No change tells of them, so nobody wrote them down. They are what the fact has at X beyond the rows
that are stored there and the archived deletes before it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from common import changes, exact_sums
from common.command import Settings
from common.connections import TargetSession
from common.errors import AuditIncomplete
from deltas.rules import FactChanges
from psycopg2.extras import execute_values
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sql
from warehouse import groups
from warehouse.fact import Built, open_facts

from seeding.archived import FORGET, WENT
from waltally import lsn
from waltally.database import explained
from waltally.facts import Fact, FactTable


def write(
    spark: SparkSession,
    target: TargetSession,
    settings: Settings,
    facts: Sequence[Fact],
    position: int,
    gaps: Collection[str],
) -> None:
    """Add these rows to the incoming table, with WENT as the reason. Raises AuditIncomplete.

    The facts must have applied everything before the position, except those with a gap.
    """
    emptied = target.emptied()
    for fact in facts:
        if not any(str(part.table) in emptied for part in fact.tables if part.ignores_deletes):
            continue
        if fact.name in gaps:
            raise unknown(fact, "the change log does not go on from the fact")
        with open_facts(target, [fact]) as [built]:
            found = {
                part.name: _beyond(spark, target, settings, built, part, position).persist()
                for part in built.emptied_parts(emptied)
            }
            for rows in found.values():
                # Read now: the snapshot ends with the block, and what it has is read only.
                rows.count()
        for name, rows in found.items():
            _store(target, settings, fact, name, rows)


def unknown(fact: Fact, why: str) -> AuditIncomplete:
    """Return the error of a fact of which nobody can tell how many rows went."""
    return AuditIncomplete(
        f"a partition that {fact.relation} counted was dropped or truncated, and how many of its"
        f" rows the fact still counts cannot be told: {why}",
        FORGET,
    )


def _beyond(
    spark: SparkSession,
    target: TargetSession,
    settings: Settings,
    built: Built,
    part: FactTable,
    position: int,
) -> DataFrame:
    """Return what the fact has at the position beyond what is counted and written down."""
    fact = built.fact
    if built.baseline_lsn is None or built.rejected.count:
        why = "it rejected changes" if built.rejected.count else "it has no baseline"
        raise unknown(fact, why)
    end = max(position, built.position)
    log = changes.read(spark, target, position, end)
    together = {name for each in fact.measures if part.name in each.of for name in each.of}
    later = FactChanges(log, fact, target.slot)
    if together & later.truncates.keys():
        raise unknown(fact, "a table was truncated while the seed was counting; run it again")
    archived = groups.archived_query(fact, target)
    rows = groups.read(
        spark,
        built.snapshot,
        [
            *built.queries,
            f"{archived} and commit_lsn < '{lsn.show(position)}'",
            groups.counted_query(fact, target.incoming),
        ],
        fact,
    ).unionByName(later.deltas())
    sign = sql.when(sql.col("part").isNull(), 1).otherwise(-1)
    signed = rows.withColumn("sums", exact_sums.negated(sql.col("sums"), sign))
    found = exact_sums.summed(signed, fact, "dimensions").withColumn("sums", _of_part(fact, part))
    return found.where(_has_rows(fact, part))


def _of_part(fact: Fact, part: FactTable) -> Column:
    return sql.array(
        *(
            sql.get("sums", place) if part.name in measure.of else sql.lit("0")
            for place, measure in enumerate(fact.measures)
        )
    )


def _has_rows(fact: Fact, part: FactTable) -> Column:
    """Return whether a group has rows of the part; a negative number is another fault."""
    place = fact.counting_place(part)
    if place is None:
        return ~exact_sums.is_nothing(fact)
    return sql.get("sums", place).cast("bigint") > 0


def _store(
    target: TargetSession, settings: Settings, fact: Fact, part: str, found: DataFrame
) -> None:
    with explained(target.side), target.cursor() as cursor:
        execute_values(
            cursor,
            f"insert into {target.incoming.quoted}"
            " (fact, part, dimensions, sums, reason) values %s",
            (
                (fact.name, part, row["dimensions"], row["sums"], WENT)
                for row in found.toLocalIterator()
            ),
            "(%s, %s, %s::text[], %s::text[], %s)",
            page_size=1000,
        )
