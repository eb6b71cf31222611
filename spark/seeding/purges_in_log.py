"""The purged rows of a fact as its last baseline and the change log say, not the fact itself."""

from __future__ import annotations

from collections.abc import Callable

from common.connections import Connection
from common.errors import AuditIncomplete
from common.settings import Settings
from counting.counts import COLUMNS
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from warehouse import fact as warehouse_fact
from warehouse import groups, logged_purges

from seeding.incoming import write
from seeding.incoming_table import incoming_table
from seeding.known_facts import KnownFact
from seeding.purged import FORGET
from waltally.facts import Fact


def write_purged(
    spark: SparkSession,
    target: Connection,
    settings: Settings,
    known: KnownFact,
    position: int,
    notify: Callable[[str], None],
) -> None:
    """Write the rows purged before the position into the incoming table, with the origin `purged`.

    The change log must have reached the position. Raises AuditIncomplete where not all are known.
    """
    fact = known.fact
    if known.position is None:
        raise AuditIncomplete(
            f"{fact.relation} rejected changes, and the change log does not reach back to it, so"
            " the rows that were purged cannot be told from others",
            FORGET,
        )
    with warehouse_fact.open_fact(target, settings, fact) as built:
        query = built.remembered_query
        remembered = groups.read(spark, built.snapshot, [query], fact).persist()
        remembered.count()
    purged = logged_purges.read(spark, target, settings, built, remembered, position, notify)
    for part, unseen in purged.unseen.items():
        reason = unseen.partition(";")[0]
        build = f"`dbt build`, then run the {settings.work} again; "
        raise AuditIncomplete(
            f"{fact.relation} rejected changes, and not all rows that were purged from"
            f" {fact.part(part).table} are known: {reason}",
            f"{'' if built.is_on_newest_baseline else build}{FORGET}",
        )
    incoming = incoming_table(settings)
    write(_groups(purged.rows, fact), target, incoming, "logged")
    target.execute(
        f"update {incoming.quoted} set origin = 'purged' where fact = %s and origin = 'logged'",
        (fact.name,),
    )


def _groups(purged: DataFrame, fact: Fact) -> DataFrame:
    """Return the purged rows as the incoming table has groups; a row adds 1 to each count of it."""
    row_count = sql.lit(0).cast("bigint")
    for place, measure in enumerate(fact.measures):
        if measure.kind == "count":
            count = sql.get("sums", place).cast("bigint")
            row_count = sql.when(sql.col("part").isin(list(measure.of)), count).otherwise(row_count)
    unknown = sql.lit(None).cast("string")
    return purged.select(
        sql.lit(fact.name).alias("fact"),
        "part",
        "dimensions",
        row_count.alias("row_count"),
        "sums",
        unknown.alias("reason"),
        unknown.alias("example"),
    ).select(*COLUMNS)
