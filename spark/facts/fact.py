"""The fact and its position, read in one transaction at the target."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

import psycopg
from common import arrow_source
from common.arrow_source import Snapshot
from common.connections import Connection, resolved
from common.errors import SnapshotTooOld
from counting import ranges
from psycopg import sql
from pyspark.sql import DataFrame, SparkSession

from facts.settings import FactSettings
from loader.preflight.table_identity import TableIdentities
from waltally import lsn
from waltally.errors import NotSetUp
from waltally.tables import Table

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

_STATE = """
    select
        log.start_lsn::text,
        mark.applied_lsn::text,
        seed.snapshot_lsn::text,
        mark.seed_id,
        seed.seed_id,
        case when seed.slot_name is null then log.source_tables else seed.source_tables end
    from {staging}.slot_position as log
    left join {staging}.model_watermark as mark
        on mark.slot_name = log.slot_name and mark.model_name = %(model)s
    left join {staging}.historical_snapshot as seed on seed.slot_name = log.slot_name
    where log.slot_name = %(slot)s
"""


@dataclass(frozen=True)
class Rejected:
    """How many changes could not be counted, and the first one's position."""

    count: int
    first_lsn: int | None

    def and_then(self, later: Rejected) -> Rejected:
        """Return both together."""
        first = later.first_lsn if self.first_lsn is None else self.first_lsn
        return Rejected(self.count + later.count, first)


@dataclass(frozen=True)
class Fact:
    """The fact as it was at `position`: every change with a commit LSN below it is applied.

    The change log begins at `log_start`; `seed_lsn` is of the newest seed, null without one.
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
        """Return the fact's rows, to be read while the fact is held; `total` is its `count`."""
        where = self.snapshot
        return arrow_source.rows(spark, where.conninfo, self.queries, _SCHEMA, where.name)

    def remembered(self, spark: SparkSession) -> DataFrame:
        """Return how many purged rows of each group the newest seed knew: `purged_count`."""
        where = self.snapshot
        return arrow_source.rows(
            spark, where.conninfo, [self.remembered_query], _REMEMBERED, where.name
        )


@contextlib.contextmanager
def hold(target: Connection, settings: FactSettings) -> Iterator[Fact]:
    """Keep the fact readable, with all that is known of it at the same moment.

    Raises NotSetUp where it was never built, SnapshotTooOld where the change log does not go on
    from it.
    """
    target.execute("begin isolation level repeatable read read only")
    try:
        row = target.execute("select pg_export_snapshot()").fetchone()
        assert row is not None
        snapshot = Snapshot(resolved(target), str(row[0]))
        yield _read(target, settings, snapshot)
    finally:
        with contextlib.suppress(psycopg.Error):
            target.execute("rollback")


def start_lsn(target: Connection, settings: FactSettings) -> int:
    """Return where the change log begins now. Raises NotSetUp where the slot is gone."""
    return _position(target, settings, "start_lsn")


def position_lsn(target: Connection, settings: FactSettings) -> int:
    """Return how far the loader has come. Raises NotSetUp where the slot is gone."""
    return _position(target, settings, "position_lsn")


def refuse_gap(start: int, position: int, fact: Table) -> None:
    """Raise SnapshotTooOld where changes that the fact lacks are no longer in the change log."""
    if start > position:
        raise SnapshotTooOld(
            f"{fact} holds changes up to {lsn.show(position)} and the change log begins at"
            f" {lsn.show(start)}: the changes between are in neither",
            "`spark-submit spark/seed.py`, then `dbt build`, then the audit again",
        )


def _read(target: Connection, settings: FactSettings, snapshot: Snapshot) -> Fact:
    reading, fact = settings.reading, settings.fact
    row = target.execute(
        sql.SQL(_STATE).format(staging=sql.Identifier(reading.schema)),
        {"model": str(fact), "slot": reading.slot},
    ).fetchone()
    exists = target.execute("select to_regclass(%s)", (fact.quoted,)).fetchone() != (None,)
    if row is None or row[1] is None or not exists:
        raise NotSetUp(
            f"{fact} has not been built from the slot {reading.slot} yet",
            "`dbt build`, with the same LOADER_SLOT, LOADER_SCHEMA and DBT_SCHEMA",
        )
    start, applied, seeded_at, built_on, newest, counted = row
    position = lsn.parse(str(applied))
    refuse_gap(lsn.parse(str(start)), position, fact)
    queries = [
        f"select {_COLUMNS} from only {leaf.table.quoted} where {condition}"
        for leaf in ranges.leaves(target, fact)
        for condition in ranges.cut(leaf, ranges.PAGES_A_RANGE)
    ]
    remembered = sql.SQL(
        "select service_id::text as service_id, template_id::text as template_id,"
        " notification_type, notification_status, purged_count from {}"
        " where slot_name = {} and source_table = {} and purged_count > 0"
    ).format(
        sql.Identifier(reading.schema, "historical_counts"),
        sql.Literal(reading.slot),
        sql.Literal(str(reading.tables[1])),
    )
    return Fact(
        position,
        lsn.parse(str(start)),
        None if seeded_at is None else lsn.parse(str(seeded_at)),
        snapshot,
        queries,
        remembered.as_string(target),
        built_on is not None,
        built_on == newest,
        cast(TableIdentities, counted or {}),
        _rejected(target, settings),
    )


def _rejected(target: Connection, settings: FactSettings) -> Rejected:
    """Return the changes that are listed as rejected; none where that model was never built."""
    listed = Table(settings.dbt_schema, "rejected_changes").quoted
    if target.execute("select to_regclass(%s)", (listed,)).fetchone() == (None,):
        return Rejected(0, None)
    row = target.execute(
        f"select count(*), min(commit_lsn)::text from {listed}"
        " where slot_name = %s and fact = %s".encode(),
        (settings.reading.slot, str(settings.fact)),
    ).fetchone()
    assert row is not None
    return Rejected(int(str(row[0])), None if row[1] is None else lsn.parse(str(row[1])))


def _position(target: Connection, settings: FactSettings, column: str) -> int:
    reading = settings.reading
    row = target.execute(
        sql.SQL("select {}::text from {} where slot_name = %s").format(
            sql.Identifier(column), sql.Identifier(reading.schema, "slot_position")
        ),
        (reading.slot,),
    ).fetchone()
    if row is None:
        raise NotSetUp(
            f"slot {reading.slot} has no row in {reading.schema}.slot_position any more",
            "run `loader setup`",
        )
    return lsn.parse(str(row[0]))
