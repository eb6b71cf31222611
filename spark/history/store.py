"""The result: counts come in beside the present ones and replace them in one transaction."""

from __future__ import annotations

import contextlib
import hashlib
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import psycopg
from psycopg import sql

from history import checks
from history.connections import Connection
from history.counts import COLUMNS
from history.errors import AnotherSeed, CountingFailed
from history.settings import Settings
from loader import lsn

_POLL_SECONDS = 0.2


@dataclass(frozen=True)
class Stored:
    """What the seed has become: rows and groups of each source table."""

    seed_id: uuid.UUID
    tables: dict[str, tuple[int, int]]


def incoming_table(slot: str) -> str:
    """Return the name, in the staging schema, of the table that the slot's counts come in by."""
    return "historical_counts_incoming_" + hashlib.sha256(slot.encode()).hexdigest()[:16]


@contextlib.contextmanager
def only_seed(
    target: Connection, settings: Settings, tell: Callable[[str], None]
) -> Iterator[None]:
    """Be the slot's only seed for as long as the session lives, with an empty incoming table.

    Waits `settings.timeout` seconds for another seed, then raises AnotherSeed. So a snapshot is
    never taken before the seed that it will replace.
    """
    key = {"key": f"waltally seed {settings.schema} {settings.slot}"}
    deadline = time.monotonic() + settings.timeout
    told = False
    while target.execute(
        "select pg_try_advisory_lock(hashtextextended(%(key)s, 0))", key
    ).fetchone() != (True,):
        if not told:
            tell(f"waiting for another seed of slot {settings.slot}")
            told = True
        if time.monotonic() > deadline:
            raise AnotherSeed(
                f"another seed of slot {settings.slot} is running",
                "let it end; its result is as good, or raise --timeout",
            )
        time.sleep(_POLL_SECONDS)
    incoming = sql.Identifier(settings.schema, incoming_table(settings.slot))
    # A seed that was killed has left its table behind.
    target.execute(sql.SQL("drop table if exists {}").format(incoming))
    target.execute(
        sql.SQL(
            "create unlogged table {} (source_table text, service_id text, template_id text,"
            " notification_type text, notification_status text, row_count bigint, attempt bigint)"
        ).format(incoming)
    )
    try:
        yield
    finally:
        with contextlib.suppress(psycopg.Error):
            target.execute(sql.SQL("drop table if exists {}").format(incoming))


def stored_lsn(target: Connection, settings: Settings) -> int | None:
    """Return the position of the slot's present seed, if there is one."""
    row = target.execute(
        sql.SQL("select snapshot_lsn::text from {} where slot_name = %s").format(
            sql.Identifier(settings.schema, "historical_snapshot")
        ),
        (settings.slot,),
    ).fetchone()
    return None if row is None else lsn.parse(str(row[0]))


def replace(
    target: Connection, settings: Settings, snapshot_lsn: int, source_tables: str | None = None
) -> Stored:
    """Put what has come in where the slot's counts are, with a new seed id.

    `source_tables` says, as JSON, which tables were counted; None where that is not known.

    Raises CountingFailed where an id is not a uuid, SnapshotTooOld, and NotSetUp where the slot
    was torn down meanwhile.
    """
    names = {
        "incoming": sql.Identifier(settings.schema, incoming_table(settings.slot)),
        "counts": sql.Identifier(settings.schema, "historical_counts"),
        "snapshot": sql.Identifier(settings.schema, "historical_snapshot"),
        "columns": sql.SQL(", ").join(sql.Identifier(name) for name in COLUMNS),
    }
    seed_id = uuid.uuid4()
    try:
        with target.transaction():
            position = checks.staging(target, settings)
            checks.position(snapshot_lsn, position.start_lsn, stored_lsn(target, settings))
            target.execute(
                sql.SQL("delete from {counts} where slot_name = %s").format(**names),
                (settings.slot,),
            )
            target.execute(
                sql.SQL(
                    "insert into {counts} (slot_name, {columns})"
                    " select %s, source_table, service_id::uuid, template_id::uuid,"
                    " notification_type, notification_status, row_count from {incoming}"
                ).format(**names),
                (settings.slot,),
            )
            target.execute(
                sql.SQL(
                    "insert into {snapshot} (slot_name, seed_id, snapshot_lsn, system_identifier,"
                    " source_tables) values (%s, %s, %s, %s, %s)"
                    " on conflict (slot_name) do update set"
                    " seed_id = excluded.seed_id, snapshot_lsn = excluded.snapshot_lsn,"
                    " system_identifier = excluded.system_identifier, seeded_at = now(),"
                    " source_tables = excluded.source_tables"
                ).format(**names),
                (
                    settings.slot,
                    seed_id,
                    lsn.show(snapshot_lsn),
                    position.system_identifier,
                    source_tables,
                ),
            )
            totals = target.execute(
                sql.SQL(
                    "select source_table, sum(row_count)::bigint, count(*)"
                    " from {incoming} group by source_table"
                ).format(**names)
            ).fetchall()
    except (psycopg.DataError, psycopg.IntegrityError) as error:
        raise CountingFailed(
            f"the counts could not be stored: {str(error).splitlines()[0]}",
            "make sure that service_id and template_id hold uuids",
        ) from None
    found = {str(name): (int(str(rows)), int(str(groups))) for name, rows, groups in totals}
    return Stored(seed_id, {str(table): found.get(str(table), (0, 0)) for table in settings.tables})
