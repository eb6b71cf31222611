"""Slot, record and server, read in an order that is right while a loader runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from loader.source.server_facts import TIMELINE
from loader.source.slot_state import (
    Server,
    SlotState,
    Timeline,
    read_timeline,
    why_not_followable,
)
from loader.staging import migrate
from loader.staging.records import SlotPosition
from loader.staging.target_state import read_slot_position
from waltally import lsn
from waltally.database import Connection, replication_command
from waltally.errors import LoaderError
from waltally.settings import Settings

SLOT_STATE = """
select
    plugin,
    database,
    active_pid,
    wal_status,
    confirmed_flush_lsn,
    restart_lsn,
    safe_wal_size,
    -- Columns that older servers lack are null in the row's JSON.
    coalesce(
        to_jsonb(slot) ->> 'invalidation_reason',
        case when to_jsonb(slot) ->> 'conflicting' = 'true' then 'conflict' end
    ),
    extract(epoch from now() - (to_jsonb(slot) ->> 'inactive_since')::timestamptz),
    extract(epoch from current_setting('idle_replication_slot_timeout', true)::interval),
    to_jsonb(slot) ->> 'failover',
    temporary::text,
    (to_jsonb(slot) ->> 'synced')::boolean and pg_is_in_recovery()
from pg_replication_slots as slot
where slot_name = """
"""What `slot_state` takes, to be followed by the slot's name as a literal or a parameter."""


@dataclass(frozen=True)
class SlotFacts:
    """What was read; no record where the slot is not set up."""

    slot: str
    state: SlotState | None
    record: SlotPosition | None
    server: Server

    @property
    def finding(self) -> LoaderError | None:
        """Why the slot cannot be followed from the record; None where it can, or there is none."""
        if self.record is None:
            return None
        return why_not_followable(self.slot, self.server, self.state, self.record)


def read_facts(settings: Settings, source: Connection, target: Connection) -> SlotFacts:
    """Ask both sides. Raises LoaderError where one cannot be asked.

    What has become of former timelines is asked over a replication connection, only where there are
    any, and left open where no connection is to be had.
    """
    # In this order, because a running loader moves all three: the slot is never ahead of the
    # record, and the record is never ahead of the end of the WAL.
    state = read_state(source, settings.slot)
    record = None
    if migrate.version(target, settings.schema):
        record = read_slot_position(target, settings.schema, settings.slot)
    server = read_server(source)
    if record is not None:
        server = _with_history(settings, server)
    return SlotFacts(settings.slot, state, record, server)


def read_server(source: Connection) -> Server:
    """Return who the source is, over a plain connection. Raises LoaderError."""
    ((system, database, in_recovery, wal_end, timeline),) = source.ask(
        "select (select system_identifier::text from pg_control_system()), "
        "current_database(), pg_is_in_recovery(), case when pg_is_in_recovery() "
        "then pg_last_wal_replay_lsn() else pg_current_wal_insert_lsn() end, "
        f"{TIMELINE}"
    )
    return Server(
        system,
        database,
        # A standby that has replayed nothing yet has no position.
        lsn.parse(wal_end or "0/0"),
        in_recovery,
        None if timeline is None else Timeline(timeline),
    )


def _with_history(settings: Settings, server: Server) -> Server:
    """Return the server with where it left the former timelines."""
    if server.timeline is None:
        return server
    try:
        timeline = read_timeline(
            server.timeline.number, lambda command: replication_command(settings.source, command)
        )
    except LoaderError:
        return replace(server, timeline=None)
    return replace(server, timeline=timeline)


def read_idle_timeout(source: Connection) -> str | None:
    """Return after how long without a follower the server gives a slot up; None for never."""
    ((timeout,),) = source.ask(
        "select nullif(current_setting('idle_replication_slot_timeout', true), '0')"
    )
    return None if timeout is None else str(timeout)


def read_state(connection: Connection, slot: str) -> SlotState | None:
    """Return the slot's row, None where there is none. Raises LoaderError."""
    rows = connection.ask(f"{SLOT_STATE} %s", (slot,))
    return slot_state(rows[0]) if rows else None


def slot_state(row: Sequence[object]) -> SlotState:
    """Return the slot from the row of the statement SLOT_STATE."""
    plugin, database, pid, wal_status, confirmed, restart, safe, *newer = (
        None if field is None else str(field) for field in row
    )
    reason, inactive, timeout, failover, temporary, copy = newer
    return SlotState(
        plugin,
        database,
        int(pid) if pid else None,
        wal_status,
        lsn.parse(confirmed) if confirmed else None,
        lsn.parse(restart) if restart else None,
        int(safe) if safe else None,
        reason,
        float(inactive) if inactive and not pid else None,
        float(timeout) if timeout else None,
        failover == "true",
        temporary == "true",
        copy in ("t", "True"),
    )


def writable(server: Server, source: Connection, target: Connection) -> Connection:
    """Return the connection that writes what the source's cluster has: a standby takes nothing."""
    if server.in_recovery and read_server(target).is_same_cluster(server):
        return target
    return source
