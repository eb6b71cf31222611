"""The fact as the audit reads it: its rows, position and baseline, in one transaction."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

from common import arrow_source, slot_position
from common.arrow_source import Snapshot
from common.connections import Connection, exported_snapshot, resolved
from common.errors import SnapshotTooOld
from common.slot_position import RegisteredSlot
from counting import ranges
from pyspark.sql import DataFrame, SparkSession

from facts import watermark
from facts.rejected import Rejected
from facts.settings import FactSettings
from loader.preflight.table_identity import TableIdentities
from waltally import lsn
from waltally.tables import Table, literal

_SCHEMA = (
    "service_id string, template_id string, notification_type string, notification_status string,"
    " total bigint, live_count bigint, archived_count bigint"
)
_COLUMNS = (
    "service_id::text as service_id, template_id::text as template_id, notification_type,"
    " notification_status, count as total, live_count, archived_count"
)
_REMEMBERED = (
    "service_id string, template_id string, notification_type string, notification_status string,"
    " purged_count bigint"
)


@dataclass(frozen=True)
class Fact:
    """The fact as it was at `position`: every change with a commit LSN below it is applied.

    The change log begins at `log_start`; `seed_lsn` is the newest baseline's, None without one.
    """

    position: int
    log_start: int
    seed_lsn: int | None
    snapshot: Snapshot
    queries: list[str]
    remembered_query: str
    is_seeded: bool
    is_on_newest_seed: bool
    counted: TableIdentities
    rejected: Rejected

    def rows(self, spark: SparkSession) -> DataFrame:
        """Return the fact's rows, to be read within `open_fact`; `total` is its column `count`."""
        where = self.snapshot
        return arrow_source.rows(spark, where.conninfo, self.queries, _SCHEMA, where.name)

    def remembered(self, spark: SparkSession) -> DataFrame:
        """Return how many purged rows of each group the newest baseline has: `purged_count`."""
        where = self.snapshot
        return arrow_source.rows(
            spark, where.conninfo, [self.remembered_query], _REMEMBERED, where.name
        )


@contextlib.contextmanager
def open_fact(target: Connection, settings: FactSettings) -> Iterator[Fact]:
    """Yield the fact as of one moment; its rows can be read within the block.

    Raises NotSetUp where it was never built, SnapshotTooOld where the change log does not reach
    back to its position.
    """
    with exported_snapshot(target) as name:
        yield _read(target, settings, Snapshot(resolved(target), name))


def slot(target: Connection, settings: FactSettings) -> RegisteredSlot:
    """Return the slot's row as it is now. Raises NotSetUp where the slot is gone."""
    return slot_position.read(target, settings.reading.schema, settings.reading.slot)


def refuse_gap(start: int, position: int, fact: Table) -> None:
    """Raise SnapshotTooOld where changes that the fact lacks were pruned from the change log."""
    if start > position:
        raise SnapshotTooOld(
            f"{fact} holds changes up to {lsn.show(position)} and the change log begins at"
            f" {lsn.show(start)}: the changes between are in neither",
            "`spark-submit spark/seed.py`, then `dbt build`, then the audit again",
        )


def _read(target: Connection, settings: FactSettings, snapshot: Snapshot) -> Fact:
    reading, fact = settings.reading, settings.fact
    registered = slot_position.find(target, reading.schema, reading.slot)
    built = watermark.find(target, reading.schema, reading.slot, fact)
    exists = target.execute("select to_regclass(%s)", (fact.quoted,)).fetchone() != (None,)
    if registered is None or built is None or not exists:
        raise watermark.not_built(reading.slot, fact)
    refuse_gap(registered.start_lsn, built.applied_lsn, fact)
    newest = target.execute(
        "select snapshot_lsn::text, seed_id::text, source_tables"
        f" from {Table(reading.schema, 'historical_snapshot').quoted} where slot_name = %s",
        (reading.slot,),
    ).fetchone()
    seed_lsn, seed_id, counted = newest or (None, None, registered.source_tables)
    queries = [
        f"select {_COLUMNS} from only {leaf.table.quoted} where {condition}"
        for leaf in ranges.leaves(target, fact)
        for condition in ranges.cut(leaf, ranges.PAGES_PER_RANGE)
    ]
    remembered = (
        "select service_id::text as service_id, template_id::text as template_id,"
        " notification_type, notification_status, purged_count"
        f" from {Table(reading.schema, 'historical_counts').quoted}"
        f" where slot_name = '{reading.slot}' and source_table = {literal(str(reading.tables[1]))}"
        " and purged_count > 0"
    )
    return Fact(
        built.applied_lsn,
        registered.start_lsn,
        None if seed_lsn is None else lsn.parse(str(seed_lsn)),
        snapshot,
        queries,
        remembered,
        built.seed_id is not None,
        built.seed_id == seed_id,
        cast(TableIdentities, counted or {}),
        _rejected(target, settings),
    )


def _rejected(target: Connection, settings: FactSettings) -> Rejected:
    """Return the rejected changes; none where the model rejected_changes was never built."""
    listed = Table(settings.dbt_schema, "rejected_changes").quoted
    if target.execute("select to_regclass(%s)", (listed,)).fetchone() == (None,):
        return Rejected(0, None)
    row = target.execute(
        f"select count(*), min(commit_lsn)::text from {listed} where slot_name = %s and fact = %s",
        (settings.reading.slot, str(settings.fact)),
    ).fetchone()
    assert row is not None
    return Rejected(int(str(row[0])), None if row[1] is None else lsn.parse(str(row[1])))
