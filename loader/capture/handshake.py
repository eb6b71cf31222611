"""The first words on the connection that will stream a slot: who the server is, and what it has."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from psycopg.conninfo import make_conninfo

from loader.capture import wal2json
from loader.capture.protocol import ProtocolError, ReplicationConnection
from loader.capture.protocol_errors import protocol_error
from loader.source.asking import SLOT_STATE
from loader.source.server import Server
from loader.source.slot import SlotInfo, SlotState
from loader.source.slot_admin import origin_name
from loader.source.standbys import read_history
from loader.staging.records import SlotPosition
from waltally import lsn, session_settings
from waltally.server_errors import lent_session
from waltally.tables import Table


@dataclass(frozen=True)
class Handshake:
    """What server and target say of the slot before anything is streamed."""

    slot: SlotInfo
    """Its server is known with its history."""
    record: SlotPosition
    origin: int | None
    """The number of the loader's replication origin, None where it has none."""
    pid: int
    """The process that serves the connection."""
    encoding: str
    """How the source stores text. Changes come in it, whatever client_encoding says."""
    status_seconds: float
    """How often to send feedback so that the server does not end the connection."""


def connect_replication(source: str) -> ReplicationConnection:
    """Open a replication connection to the source's database. Raises LoaderError."""
    login = session_settings.pinned(source)
    try:
        connection = ReplicationConnection(make_conninfo(login.dsn, replication="database"))
        ((_, mark),) = connection.query(session_settings.PIN_NEWER)
    except ProtocolError as error:
        raise protocol_error(error, "") from error
    if mark != login.mark:
        raise lent_session("source")
    return connection


def shake_hands(
    connection: ReplicationConnection, slot: str, read_record: Callable[[], SlotPosition]
) -> Handshake:
    """Ask the server, and `read_record` for the slot's row in the target.

    Raises ProtocolError and what `read_record` raises.
    """
    # In this order, because another loader may move all three: the slot is never ahead of the
    # record, and the record is never ahead of the end of the WAL.
    rows = connection.query(f"{SLOT_STATE} '{slot}'")
    record = read_record()
    ((system, number, wal_end, database),) = connection.query("IDENTIFY_SYSTEM")
    history = read_history(int(str(number)), lambda command: connection.query(command)[0])
    ((pid, encoding, timeout, origin),) = connection.query(
        "select pg_backend_pid(), current_setting('server_encoding'), "
        "(select setting from pg_settings where name = 'wal_sender_timeout'), "
        "(select roident from pg_replication_origin "
        f"where roname = '{origin_name(slot)}')"
    )
    milliseconds = int(str(timeout))
    state = SlotState(**json.loads(str(rows[0][0]))) if rows else None
    server = Server(str(system), str(database), lsn.parse(str(wal_end)), history)
    return Handshake(
        SlotInfo(slot, state, record, server),
        record,
        None if origin is None else int(str(origin)),
        int(str(pid)),
        str(encoding),
        min(10.0, milliseconds / 4000) if milliseconds else 10.0,
    )


def start(
    connection: ReplicationConnection,
    slot: str,
    position: int,
    tables: Sequence[Table],
    ignored_origin: int | None,
) -> None:
    """Start to stream the slot. Raises SlotInUse and other LoaderErrors."""
    # Without a name the plugin would send the changes of all tables.
    names = [(table.schema, table.name) for table in tables] or [("", "")]
    try:
        connection.start(slot, position, wal2json.options(names, ignored_origin))
    except ProtocolError as error:
        raise protocol_error(error, slot) from error
