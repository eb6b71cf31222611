"""Stores the baseline: counts fill an incoming table and replace the old ones at once."""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import psycopg
from common.connections import Connection
from common.errors import AnotherSeed, CountingFailed
from common.settings import Settings
from counting import checks
from counting.counts import COLUMNS, NULL_DIMENSION

from waltally import lsn
from waltally.tables import Table

_POLL_SECONDS = 0.2


@dataclass(frozen=True)
class Rejection:
    """Rows of one table that cannot be counted for one reason, with one example."""

    source_table: str
    reason: str
    row_count: int
    example: dict[str, str]


@dataclass(frozen=True)
class StoredBaseline:
    """The stored baseline: `tables` has (rows, groups) by source table.

    `left_out` has the rows with a null dimension by table, `purged` the (rows, groups) that the
    fact has besides the stored rows.
    """

    seed_id: uuid.UUID
    tables: dict[str, tuple[int, int]]
    left_out: dict[str, int]
    rejections: list[Rejection]
    purged: tuple[int, int]


def incoming_table(slot: str) -> str:
    """Return the name of the slot's incoming table, which is in the staging schema."""
    return "historical_counts_incoming_" + hashlib.sha256(slot.encode()).hexdigest()[:16]


@contextlib.contextmanager
def acquire_seed_lock(
    target: Connection, settings: Settings, notify: Callable[[str], None]
) -> Iterator[None]:
    """Keep other seeds of the slot away, and make an empty incoming table for the block.

    Waits `settings.timeout` seconds for another seed, then raises AnotherSeed. So no seed takes its
    snapshot before another one has stored a baseline that it would replace.
    """
    key = {"key": f"waltally seed {settings.schema} {settings.slot}"}
    deadline = time.monotonic() + settings.timeout
    notified = False
    while target.execute(
        "select pg_try_advisory_lock(hashtextextended(%(key)s, 0))", key
    ).fetchone() != (True,):
        if not notified:
            notify(f"waiting for another seed of slot {settings.slot}")
            notified = True
        if time.monotonic() > deadline:
            raise AnotherSeed(
                f"another seed of slot {settings.slot} is running",
                "let it end; its result is as good, or raise --timeout",
            )
        time.sleep(_POLL_SECONDS)
    incoming = Table(settings.schema, incoming_table(settings.slot)).quoted
    # A killed seed leaves its table.
    target.execute(f"drop table if exists {incoming}")
    target.execute(
        f"create unlogged table {incoming} (source_table text, service_id text, template_id text,"
        " notification_type text, notification_status text, row_count bigint,"
        " purged_count bigint, reason text, attempt bigint)"
    )
    try:
        yield
    finally:
        with contextlib.suppress(psycopg.Error):
            target.execute(f"drop table if exists {incoming}")


def baseline_lsn(target: Connection, settings: Settings) -> int | None:
    """Return the position of the slot's baseline, None where there is none."""
    row = target.execute(
        "select snapshot_lsn::text"
        f" from {Table(settings.schema, 'historical_snapshot').quoted} where slot_name = %s",
        (settings.slot,),
    ).fetchone()
    return None if row is None else lsn.parse(str(row[0]))


def replace(
    target: Connection, settings: Settings, snapshot_lsn: int, source_tables: str | None = None
) -> StoredBaseline:
    """Replace the slot's baseline by what is in the incoming table, with a new seed id.

    `source_tables` says, as JSON, which tables were counted; None where that is not known.

    Groups that cannot be counted are listed in historical_rejections.
    Raises CountingFailed, SnapshotTooOld, and NotSetUp where the slot was torn down meanwhile.
    """
    incoming = Table(settings.schema, incoming_table(settings.slot)).quoted
    counts = Table(settings.schema, "historical_counts").quoted
    seed_id = uuid.uuid4()
    try:
        with target.transaction():
            position = checks.staging(target, settings)
            checks.position(snapshot_lsn, position.start_lsn, baseline_lsn(target, settings))
            target.execute(
                f"delete from {counts} where slot_name = %s",
                (settings.slot,),
            )
            target.execute(
                f"insert into {counts} (slot_name, {', '.join(COLUMNS)}, purged_count)"
                " select %s, source_table, service_id::uuid, template_id::uuid,"
                " notification_type, notification_status, row_count + purged, purged"
                f" from {incoming}"
                " cross join lateral ("
                "select case when %s then 0 else purged_count end) as known (purged)"
                " where reason is null and row_count + purged > 0",
                (settings.slot, settings.forget_purged),
            )
            left_out, rejections = _store_left_out(target, settings, incoming)
            target.execute(
                f"insert into {Table(settings.schema, 'historical_snapshot').quoted}"
                " (slot_name, seed_id, snapshot_lsn, system_identifier, source_tables, left_out)"
                " values (%s, %s, %s, %s, %s, %s)"
                " on conflict (slot_name) do update set"
                " seed_id = excluded.seed_id, snapshot_lsn = excluded.snapshot_lsn,"
                " system_identifier = excluded.system_identifier, seeded_at = now(),"
                " source_tables = excluded.source_tables, left_out = excluded.left_out",
                (
                    settings.slot,
                    seed_id,
                    lsn.show(snapshot_lsn),
                    position.system_identifier,
                    source_tables,
                    json.dumps(left_out),
                ),
            )
            totals = target.execute(
                "select source_table, sum(row_count)::bigint,"
                " count(*) filter (where row_count > 0)"
                f" from {incoming} where reason is null group by source_table"
            ).fetchall()
            purged = target.execute(
                "select coalesce(sum(purged_count), 0)::bigint, count(*)"
                f" from {incoming} where purged_count > 0"
            ).fetchone()
            assert purged is not None
    except (psycopg.DataError, psycopg.IntegrityError) as error:
        raise CountingFailed(
            f"the counts could not be stored: {str(error).splitlines()[0]}",
            f"run the {settings.work} again",
        ) from None
    found = {str(name): (int(str(rows)), int(str(groups))) for name, rows, groups in totals}
    return StoredBaseline(
        seed_id,
        {str(table): found.get(str(table), (0, 0)) for table in settings.tables},
        left_out,
        rejections,
        (int(str(purged[0])), int(str(purged[1]))),
    )


def _store_left_out(
    target: Connection, settings: Settings, incoming: str
) -> tuple[dict[str, int], list[Rejection]]:
    """Store what cannot be counted; return the rows with a null by table, and the list."""
    rejections = Table(settings.schema, "historical_rejections").quoted
    nulls = target.execute(
        f"select source_table, sum(row_count)::bigint from {incoming}"
        " where reason = %s group by source_table",
        (NULL_DIMENSION,),
    ).fetchall()
    found = {str(name): int(str(count)) for name, count in nulls}
    target.execute(f"delete from {rejections} where slot_name = %s", (settings.slot,))
    listed = target.execute(
        f"insert into {rejections} (slot_name, source_table, reason, row_count, example)"
        " select %s, source_table, reason, sum(row_count), min(jsonb_build_object("
        " 'service_id', service_id, 'template_id', template_id,"
        " 'notification_type', notification_type,"
        " 'notification_status', notification_status)::text)::jsonb"
        f" from {incoming} where reason <> %s group by source_table, reason"
        " returning source_table, reason, row_count, example::text",
        (settings.slot, NULL_DIMENSION),
    ).fetchall()
    return (
        {str(table): found.get(str(table), 0) for table in settings.tables},
        sorted(
            (
                Rejection(str(table), str(reason), int(str(count)), json.loads(str(example)))
                for table, reason, count, example in listed
            ),
            key=lambda each: (each.source_table, each.reason),
        ),
    )
