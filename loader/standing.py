"""Slot, record and server as they stand to each other, read so that a running loader fits in."""

from __future__ import annotations

from dataclasses import dataclass

from psycopg2 import extensions

from loader import lsn, slot, staging
from loader.change_log import Record, read_record
from loader.database import explained
from loader.errors import LoaderError
from loader.settings import Settings
from loader.tables import Table
from loader.verdict import Server, SlotState, objection


@dataclass(frozen=True)
class Standing:
    """What was read; no record where the slot is not set up."""

    slot: str
    state: SlotState | None
    record: Record | None
    server: Server

    @property
    def tables(self) -> tuple[Table, ...]:
        """What setup registered; none where the slot is not set up."""
        return self.record.tables if self.record is not None else ()

    @property
    def complaint(self) -> LoaderError | None:
        """Why the slot cannot be followed from the record; None where it can, or there is none."""
        if self.record is None:
            return None
        return objection(self.slot, self.server, self.state, self.record)


def read(
    settings: Settings, source: extensions.connection, target: extensions.connection
) -> Standing:
    """Ask both sides. Raises LoaderError where one cannot be asked."""
    # In this order, as a loader may be moving all three: the slot never passes the record, and
    # the record never passes the end of the WAL.
    state = slot.read_state_sql(source, settings.slot)
    record = None
    if staging.version(target, settings.schema):
        record = read_record(target, settings.schema, settings.slot)
    return Standing(settings.slot, state, record, read_server(source))


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
