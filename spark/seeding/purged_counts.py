"""The purged rows that the fact still counts: a new baseline must keep them.

Deletes from the archive are ignored. So the archive's baseline of a group at position X is the
larger of two counts: the rows that are stored at X, and the fact's archived_count at X. The fact is
read at its own position A, before the snapshot, and brought forward to X by the changes between.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import psycopg
from common import arrow_source, changes, slot_position
from common.connections import Connection, exported_snapshot, resolved
from common.errors import AuditIncomplete
from common.settings import Settings
from counting import ranges
from counting.counts import INCOMING
from deltas import rules
from facts import fact, loader_progress, watermark
from facts.settings import FactSettings
from pyspark.sql import DataFrame, SparkSession, functions

from waltally import lsn
from waltally.errors import MissingRight, SourceBehind
from waltally.tables import DIMENSIONS, Table, quoted

Outcome = Literal["kept", "forgotten", "unknown"]

FORGET = "--forget-purged counts the stored rows alone"

_SCHEMA = (
    "service_id string, template_id string, notification_type string, notification_status string,"
    " archived_count bigint"
)


@dataclass(frozen=True)
class FactPosition:
    """The fact's position; None where the change log does not reach back to it."""

    position: int | None


@dataclass(frozen=True)
class ArchivedCounts:
    """The fact's archived_count per group, cached by Spark: the dimensions and the count."""

    state: FactPosition
    rows: DataFrame


def can_compare(target: Connection, source: Connection | None, settings: Settings) -> bool:
    """Return whether the fact can be compared with the stored rows.

    Raises AuditIncomplete where that needs a loader and nobody follows the slot; with
    `forget_purged` the answer is then no.
    """
    found = find_position(target, settings)
    if found is None:
        return False
    if found.position is None or source is None:
        return True
    try:
        loader_progress.require_follower(
            source, FactSettings(settings, settings.dbt_schema), FORGET
        )
    except AuditIncomplete:
        if not settings.forget_purged:
            raise
        return False
    return True


def describe_outcome(
    settings: Settings, found: FactPosition | None, rows_and_groups: tuple[int, int] | None
) -> tuple[Outcome, int | None, int | None, list[str]]:
    """Return the outcome for the purged rows, how many in how many groups, and notes on it.

    `rows_and_groups` is None where the fact was not compared with the tables.
    """
    archive = settings.tables[1]
    if found is None:
        return "kept", 0, 0, []
    if rows_and_groups is None:
        return (
            "unknown",
            None,
            None,
            [
                f"Rows that were purged from {archive} are forgotten; how many is not known, as the"
                " change log did not come to where the tables were counted"
            ],
        )
    rows, groups = rows_and_groups
    notes = []
    if rows and settings.forget_purged:
        notes.append(
            f"{rows:,} rows in {groups:,} groups, which were purged from {archive}, are forgotten"
        )
    elif rows:
        notes.append(
            f"{rows:,} rows in {groups:,} groups, which were purged from {archive}, stay counted;"
            f" {FORGET}"
        )
        if found.position is None:
            notes.append(
                "the change log does not go on from the fact: a row that changed its group"
                " since then is counted in both groups"
            )
    return "forgotten" if settings.forget_purged else "kept", rows, groups, notes


def find_position(target: Connection, settings: Settings) -> FactPosition | None:
    """Return the fact's position; None where no fact was built from this slot."""
    fact_settings = FactSettings(settings, settings.dbt_schema)
    row = target.execute(
        "select to_regclass(%s) is not null, exists ("
        f"select from {Table(settings.schema, 'model_watermark').quoted}"
        " where model_name = %s and slot_name <> %s)",
        (fact_settings.fact.quoted, str(fact_settings.fact), settings.slot),
    ).fetchone()
    assert row is not None
    exists, is_of_another = row
    slot = slot_position.find(target, settings.schema, settings.slot)
    built = watermark.find(target, settings.schema, settings.slot, fact_settings.fact)
    if slot is None or not exists or (built is None and is_of_another):
        return None
    applied = 0 if built is None else built.applied_lsn
    return FactPosition(None if applied < slot.start_lsn else applied)


def read(spark: SparkSession, target: Connection, settings: Settings) -> ArchivedCounts | None:
    """Read the fact and its position in one transaction. Raises MissingRight."""
    table = FactSettings(settings, settings.dbt_schema).fact
    try:
        with exported_snapshot(target) as snapshot:
            found = find_position(target, settings)
            if found is None:
                return None
            target.execute(f"select archived_count from {table.quoted} limit 0")
            queries = [
                "select service_id::text as service_id, template_id::text as template_id,"
                f" notification_type, notification_status, archived_count from only"
                f" {leaf.table.quoted} where archived_count <> 0 and {condition}"
                for leaf in ranges.leaves(target, table)
                for condition in ranges.cut(leaf, ranges.PAGES_PER_RANGE)
            ]
            rows = arrow_source.rows(spark, resolved(target), queries, _SCHEMA, snapshot)
            rows = rows.persist()
            rows.count()
            return ArchivedCounts(found, rows)
    except psycopg.errors.InsufficientPrivilege:
        user = quoted(target.info.user)
        raise MissingRight(
            f"role {target.info.user} may not read {table}, which knows how many rows were purged",
            f"grant usage on schema {quoted(table.schema)} to {user};"
            f" grant select on {table.quoted} to {user};",
        ) from None


def bring_forward(
    archived: ArchivedCounts,
    spark: SparkSession,
    target: Connection,
    source: Connection | None,
    settings: Settings,
    position: int,
    notify: Callable[[str], None],
) -> DataFrame:
    """Return the fact's archived_count at the position, when the change log has reached it.

    Where the change log does not go on from the fact, it is returned as it was. Raises
    AuditIncomplete, SnapshotTooOld where changes are pruned meanwhile, SourceBehind.
    """
    begin = archived.state.position
    if begin is None:
        return archived.rows
    fact_settings = FactSettings(settings, settings.dbt_schema)
    if position < begin and source is not None:
        raise SourceBehind(
            f"the source's WAL ends at {lsn.show(position)}, before the fact's position"
            f" {lsn.show(begin)}: it was restored or failed over with loss",
            "`loader setup --renew`, then `spark-submit spark/seed.py`, then `dbt build`",
        )
    loader_progress.wait_for_position(target, source, fact_settings, position, notify)
    live, archive = map(str, settings.tables)
    log = changes.read(
        spark, target, settings.schema, settings.slot, min(begin, position), max(begin, position)
    ).persist()
    log.count()
    # After the read: changes that are pruned meanwhile are missing without an error.
    fact.refuse_gap(
        fact.slot(target, fact_settings).start_lsn, min(begin, position), fact_settings.fact
    )
    is_emptied = any(
        row["part"] == "archived" for row in rules.last_truncates(log, live, archive).collect()
    )
    sign = 1 if begin <= position else -1
    came = (
        rules.signed_deltas(log, live, archive)
        .where("part = 'archived'")
        .select(*DIMENSIONS, (functions.col("delta") * sign).alias("archived_count"))
    )
    if is_emptied and sign < 0:
        # The export is from before a TRUNCATE: the fact no longer has the counts of then.
        return archived.rows.limit(0)
    kept = archived.rows.limit(0) if is_emptied else archived.rows
    return (
        kept.unionByName(came)
        .groupBy(*DIMENSIONS)
        .agg(functions.sum("archived_count").alias("archived_count"))
    )


def without_purged_rows(groups: DataFrame) -> DataFrame:
    """Return the groups with the columns INCOMING and no purged rows."""
    return groups.withColumn("purged_count", functions.lit(0).cast("bigint")).select(*INCOMING)


def with_purged_rows(groups: DataFrame, archived: DataFrame, archive: str) -> DataFrame:
    """Return the groups with the columns INCOMING and the rows that the fact has beyond them."""
    nothing = functions.lit(0).cast("bigint")
    known = archived.where("archived_count > 0").select(
        functions.lit(archive).alias("source_table"),
        *DIMENSIONS,
        nothing.alias("row_count"),
        "archived_count",
    )
    counted = (
        groups.where("reason is null")
        .drop("reason")
        .withColumn("archived_count", nothing)
        .unionByName(known)
        .groupBy("source_table", *DIMENSIONS)
        .agg(
            functions.sum("row_count").alias("row_count"),
            functions.sum("archived_count").alias("archived_count"),
        )
        .withColumn(
            "purged_count",
            functions.greatest(functions.expr("archived_count - row_count"), nothing),
        )
        .withColumn("reason", functions.lit(None).cast("string"))
    )
    return counted.select(*INCOMING).unionByName(
        without_purged_rows(groups.where("reason is not null"))
    )
