"""The source's slot: ask about it, make it, drop it, stream it."""

from __future__ import annotations

from psycopg.conninfo import make_conninfo
from psycopg2 import extensions

from loader import login, lsn, sessions, wal2json
from loader.checks import plugin_missing, senders_remedy
from loader.database import connection_error, explained, is_too_large, standby
from loader.errors import (
    LoaderError,
    MissingRight,
    NoFreeSlot,
    PluginNotAllowed,
    RowTooLarge,
    SlotInUse,
    SlotLost,
)
from loader.protocol import ProtocolError, ReplicationConnection
from loader.tables import Table
from loader.verdict import Server, SlotState

_STATE = (
    "select plugin, database, active_pid, wal_status, confirmed_flush_lsn, restart_lsn, "
    "safe_wal_size from pg_replication_slots where slot_name = "
)


def origin_name(slot: str) -> str:
    """Return the name of the replication origin that tags the loader's own writes."""
    return f"waltally_{slot}"


def connect_replication(source: str) -> ReplicationConnection:
    """Open a replication connection to the source's database. Raises LoaderError."""
    try:
        connection = ReplicationConnection(
            make_conninfo(login.pinned(source), replication="database")
        )
        connection.query(sessions.PIN_NEWER)
    except ProtocolError as error:
        raise protocol_error(error, "") from error
    return connection


def beside(source: str, replication: ReplicationConnection) -> str:
    """Return the string for a plain connection to the very server that `replication` is at."""
    return make_conninfo(source, **replication.place)


def protocol_error(error: ProtocolError, slot: str) -> LoaderError:
    """Return the LoaderError for a failure of the replication connection.

    Told by SQLSTATE; where one means several things, by what no language translates: the names of
    settings and of the plugin.
    """
    said = " ".join(str(error).split())
    code = error.sqlstate
    if code == "55006":
        return SlotInUse(
            f"The slot {slot} is in use: {said}",
            "stop the other loader; after a crash the server frees it by wal_sender_timeout",
        )
    if "output_plugin_libraries" in said:
        return PluginNotAllowed(f"The source does not allow wal2json: {said}", "`loader setup`")
    if code == "58P01" and "wal2json" in said:
        return plugin_missing(error.major)
    if slot and code in ("42704", "55000", "58P01"):
        return SlotLost(f"The slot {slot} cannot be read: {said}", "`loader status` says more")
    if code == "53300" and "max_wal_senders" in said:
        return NoFreeSlot(
            "The source has no free WAL sender",
            senders_remedy(),
        )
    if code == "42501":
        return MissingRight(
            f"The role may not replicate: {said}",
            "`loader setup --check` says which right it lacks",
        )
    if is_too_large(code, said):
        return RowTooLarge(f"The source cannot send a row: {said}")
    # Once the login has passed, no code means that it is refused.
    return connection_error(said, "source", None if slot else code)


def identify(connection: ReplicationConnection) -> Server:
    """Return who answers. Raises ProtocolError, IsStandby."""
    if connection.query("select pg_is_in_recovery()") == [("t",)]:
        raise standby()
    ((system, _, wal_end, database),) = connection.query("IDENTIFY_SYSTEM")
    return Server(str(system), str(database), lsn.parse(str(wal_end)))


def read_state(connection: ReplicationConnection, slot: str) -> SlotState | None:
    """Return the slot's row, None where there is none. Raises ProtocolError."""
    rows = connection.query(f"{_STATE} '{slot}'")
    return _state(rows[0]) if rows else None


def read_state_sql(connection: extensions.connection, slot: str) -> SlotState | None:
    """Return the slot's row over a plain connection, None where there is none."""
    with explained("source"), connection, connection.cursor() as cursor:
        cursor.execute(f"{_STATE} %s", (slot,))
        row = cursor.fetchone()
    return _state(row) if row else None


def _state(row: tuple[object, ...]) -> SlotState:
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


def read_origin(connection: ReplicationConnection, slot: str) -> int | None:
    """Return the number of the loader's replication origin, None where it has none."""
    name = origin_name(slot)
    rows = connection.query(f"select roident from pg_replication_origin where roname = '{name}'")
    return int(str(rows[0][0])) if rows else None


def backend(connection: ReplicationConnection) -> int:
    """Return the process that serves the connection. Raises ProtocolError."""
    ((pid,),) = connection.query("select pg_backend_pid()")
    return int(str(pid))


def encoding(connection: ReplicationConnection) -> str:
    """Return the encoding that the source stores text in, and sends changes in."""
    ((name,),) = connection.query("show server_encoding")
    return str(name)


def status_seconds(connection: ReplicationConnection) -> float:
    """Return how often to send feedback so that the server does not think us dead, in seconds."""
    ((value,),) = connection.query(
        "select setting from pg_settings where name = 'wal_sender_timeout'"
    )
    milliseconds = int(str(value))
    return min(10.0, milliseconds / 4000) if milliseconds else 10.0


def start(
    connection: ReplicationConnection,
    slot: str,
    position: int,
    tables: tuple[Table, ...],
    ignored_origin: int | None,
) -> None:
    """Start to stream the slot. Raises SlotInUse and what else the server may object."""
    names = [(table.schema, table.name) for table in tables]
    try:
        connection.start(slot, position, wal2json.options(names, ignored_origin))
    except ProtocolError as error:
        raise protocol_error(error, slot) from error


def mark_end(connection: extensions.connection) -> int:
    """Return a position that the stream passes only after all that is committed by now.

    A logical message, no row: it flushes the WAL up to itself, so that the position is reached
    also where the server is idle and earlier commits were asynchronous.
    """
    with explained("source"), connection, connection.cursor() as cursor:
        cursor.execute("set local synchronous_commit to 'local'")
        cursor.execute("select pg_logical_emit_message(true, 'waltally', '')")
        row = cursor.fetchone()
    assert row is not None
    return lsn.parse(row[0])
