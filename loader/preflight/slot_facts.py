"""Slot, record and server, read in an order that is right while a loader runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from psycopg2 import extensions

from loader.preflight.slot_state import Server, SlotState, why_not_followable
from loader.staging import migrate
from loader.staging.records import SlotPosition
from loader.staging.target_state import read_slot_position
from waltally import lsn
from waltally.database import explained
from waltally.errors import LoaderError
from waltally.settings import Settings

SLOT_STATE = (
    "select plugin, database, active_pid, wal_status, confirmed_flush_lsn, restart_lsn, "
    "safe_wal_size from pg_replication_slots where slot_name = "
)
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


def read_facts(
    settings: Settings, source: extensions.connection, target: extensions.connection
) -> SlotFacts:
    """Ask both sides. Raises LoaderError where one cannot be asked."""
    # In this order, because a running loader moves all three: the slot is never ahead of the
    # record, and the record is never ahead of the end of the WAL.
    state = read_state(source, settings.slot)
    record = None
    if migrate.version(target, settings.schema):
        record = read_slot_position(target, settings.schema, settings.slot)
    return SlotFacts(settings.slot, state, record, read_server(source))


def read_server(source: extensions.connection) -> Server:
    """Return who the source is, over a plain connection. Raises LoaderError."""
    with explained("source"), source, source.cursor() as cursor:
        cursor.execute(
            "select (select system_identifier::text from pg_control_system()), "
            "current_database(), pg_current_wal_insert_lsn()"
        )
        row = cursor.fetchone()
    assert row is not None
    return Server(row[0], row[1], lsn.parse(row[2]))


def read_state(connection: extensions.connection, slot: str) -> SlotState | None:
    """Return the slot's row, None where there is none. Raises LoaderError."""
    with explained("source"), connection, connection.cursor() as cursor:
        cursor.execute(f"{SLOT_STATE} %s", (slot,))
        row = cursor.fetchone()
    return slot_state(row) if row else None


def slot_state(row: Sequence[object]) -> SlotState:
    """Return the slot from the row of the statement SLOT_STATE."""
    plugin, database, pid, wal_status, confirmed, restart, safe = (
        None if field is None else str(field) for field in row
    )
    return SlotState(
        plugin,
        database,
        int(pid) if pid else None,
        wal_status,
        lsn.parse(confirmed) if confirmed else None,
        lsn.parse(restart) if restart else None,
        int(safe) if safe else None,
    )
