"""Opens everything that streams the slot, in the order that makes its answers true."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

from psycopg.conninfo import make_conninfo

from loader.capture import wal2json
from loader.capture.followed_tables import FollowedTables
from loader.capture.protocol import ProtocolError, ReplicationConnection, protocol_error
from loader.capture.source_monitor import SourceMonitor
from loader.capture.stages import Stage
from loader.capture.stages.columns import column_stage
from loader.capture.stages.encodings import EncodingChecker
from loader.capture.stages.partitions import Partitions
from loader.source import ddl_notes, table_identity
from loader.source.server import STANDBYS_DECODE_SINCE
from loader.source.server_checks import synchronous_finding
from loader.source.slot import (
    SLOT_STATE,
    Server,
    SlotState,
    Timeline,
    read_server,
    read_state,
    read_timeline,
    why_not_followable,
)
from loader.source.slot_admin import origin_name
from loader.staging.change_log import ChangeLog
from loader.staging.records import Registration, SlotPosition
from waltally import failpoints, lsn, session_settings
from waltally.database import Connection
from waltally.errors import Interrupted, NotSetUp
from waltally.server_errors import standby
from waltally.settings import Settings
from waltally.tables import Table

log = logging.getLogger("loader")


@dataclass(frozen=True)
class Handshake:
    """What server and target say of the slot before anything is streamed."""

    state: SlotState | None
    """The slot, None where the server has none of this name."""
    record: SlotPosition
    server: Server
    timeline: Timeline
    """The timeline that the server is on, with where it left the former ones."""
    origin: int | None
    """The number of the loader's replication origin, None where it has none."""
    pid: int
    """The process that serves the connection."""
    encoding: str
    """How the source stores text. Changes come in it, whatever client_encoding says."""
    status_seconds: float
    """How often to send feedback so that the server does not end the connection."""


@dataclass(frozen=True)
class Stream:
    """A slot that is being streamed and is ours."""

    replication: ReplicationConnection
    monitor: SourceMonitor
    stages: Sequence[Stage]
    """What is done to the changes, in this order."""
    partitions: Partitions
    followed: FollowedTables
    position_lsn: int
    registration: Registration
    """The registration that it follows."""
    found: Handshake
    """What the server said at first."""
    writes_own_wal: bool
    """Whether the target is the source's own cluster, so that its WAL holds our writes."""


def open_stream(
    settings: Settings, change_log: ChangeLog, check_encoding_to: int, resources: ExitStack
) -> Stream:
    """Check everything and start to stream. Raises LoaderError; the slot is then as it was.

    Changes up to the commit LSN `check_encoding_to` are checked one by one for text that the target
    cannot hold. `resources` ends what is opened, also after a failure.
    """
    name = settings.slot
    try:
        replication = connect_replication(settings.source)
        resources.callback(replication.finish)
        found = shake_hands(replication, name, change_log.record)
        at = found.record.position_lsn
        # The same server: the string may name several.
        place = make_conninfo(settings.source, **replication.place)
        monitor = SourceMonitor(place, name, found.timeline, found.server.in_recovery)
        resources.callback(monitor.close)
        finding = why_not_followable(name, found.server, found.state, found.record)
        finding = finding or synchronous_finding(monitor.connection)
        if finding is not None:
            raise finding
        registered = change_log.registration()
        _check_tables(settings, change_log, monitor.connection, registered)
        change_log.use_encoding(found.encoding)
        partitions = Partitions(place, monitor.connection, registered, at)
        resources.callback(partitions.close)
        kept, keep_columns = column_stage(monitor.connection, settings, registered, found.encoding)
        check_encoding = None
        if check_encoding_to > at:
            checker = EncodingChecker(settings.target, found.encoding, check_encoding_to)
            resources.callback(checker.close)
            check_encoding = checker.check
        # Columns are known by the names of the partitioned tables, and a row that moves is found
        # by the columns that are left.
        rename, join = partitions.stages
        stages = [each for each in (rename, keep_columns, check_encoding, join) if each]
        prefix = ddl_notes.read_prefix(monitor.connection)
        start(replication, name, at, partitions.tables, found.origin, prefix)
        # Only the owner of the slot moves the record and the slot. We own it from here on, so
        # both are read and checked again.
        change_log.acquire_slot_lock()
        record = change_log.record()
        _check_again(name, replication, monitor, found, record)
        writes_own_wal = _write_beside(change_log, name, found)
        # Only now: the log goes on from this position with these tables and no others.
        failpoints.reach("before-followed")
        followed = FollowedTables(change_log, registered, partitions)
        followed.begin(kept, record.position_lsn)
        change_log.commit()
        failpoints.reach("after-followed")
    except ProtocolError as error:
        raise protocol_error(error, name) from error
    return Stream(
        *(replication, monitor, stages, partitions, followed),
        *(record.position_lsn, registered, found, writes_own_wal),
    )


def _write_beside(change_log: ChangeLog, slot: str, found: Handshake) -> bool:
    """Have the target's session fit the source, and write down which timeline that is on.

    Return whether the target is the source's own cluster.
    """
    source, target = found.server.system_identifier, change_log.system_identifier()
    if target == source:
        change_log.commit_locally()
    # Another cluster may have an origin of this name for a source of its own.
    if found.origin is not None and target in (source, None):
        change_log.use_origin(origin_name(slot))
    change_log.write_source(
        found.timeline.number, found.timeline.began_at, found.server.in_recovery
    )
    change_log.commit()
    return target == source


def _check_again(
    name: str,
    replication: ReplicationConnection,
    monitor: SourceMonitor,
    found: Handshake,
    record: SlotPosition,
) -> None:
    """Check again what can no longer move.

    If we ask for a position before the slot's own, the server silently starts at its own. So where
    the slot was moved after the first check, the changes between would be missing.
    """
    state = read_state(monitor.connection, name)
    wal_end = read_server(monitor.connection).wal_end
    server = replace(found.server, wal_end=wal_end)
    finding = why_not_followable(name, server, state, record)
    if finding is not None:
        raise finding
    if state is None or state.active_pid != found.pid:
        # Where the server has ended the stream since, this raises why, after what came before.
        while replication.receive(2**20):
            pass
        raise Interrupted(
            "A second connection to the source does not see that process "
            f"{found.pid} streams {name}",
            "name one server in LOADER_SOURCE_DSN, without a pooler or balancer before it",
        )


def _check_tables(
    settings: Settings,
    change_log: ChangeLog,
    source: Connection,
    registered: Registration,
) -> None:
    """Raise NotSetUp where nothing is registered, TableUnfit for a table that is missing.

    The slot skips the changes of a table that is not named, or that has another name now. Where a
    name means another table than was counted, the log can go on, so that is only logged.
    """
    if not registered.tables:
        raise NotSetUp(f"No fact is registered for the slot {settings.slot}", "run `loader setup`")
    current = table_identity.read_current(source, registered.facts)
    for table in registered.tables:
        if str(table) not in current:
            raise table_identity.missing_finding(table)
    counted = table_identity.read_counted(change_log.connection)
    for finding in table_identity.replaced_findings(registered.facts, counted, current):
        log.warning(finding.sentence)


def connect_replication(source: str) -> ReplicationConnection:
    """Open a replication connection to the source's database. Raises LoaderError."""
    try:
        connection = ReplicationConnection(
            make_conninfo(session_settings.pinned(source), replication="database")
        )
        connection.query(session_settings.PIN_NEWER)
    except ProtocolError as error:
        raise protocol_error(error, "") from error
    return connection


def shake_hands(
    connection: ReplicationConnection, slot: str, record: Callable[[], SlotPosition]
) -> Handshake:
    """Ask the server, and `record` for the slot's row in the target.

    Raises ProtocolError, IsStandby and what `record` raises.
    """
    in_recovery = connection.query("select pg_is_in_recovery()") == [("t",)]
    if in_recovery and connection.server_version < STANDBYS_DECODE_SINCE:
        raise standby()
    # In this order, because another loader may move all three: the slot is never ahead of the
    # record, and the record is never ahead of the end of the WAL.
    rows = connection.query(f"{SLOT_STATE} '{slot}'")
    found = record()
    ((system, number, wal_end, database),) = connection.query("IDENTIFY_SYSTEM")
    timeline = read_timeline(int(str(number)), lambda command: connection.query(command)[0])
    ((pid, encoding, timeout, origin),) = connection.query(
        "select pg_backend_pid(), current_setting('server_encoding'), "
        "(select setting from pg_settings where name = 'wal_sender_timeout'), "
        "(select roident from pg_replication_origin "
        f"where roname = '{origin_name(slot)}')"
    )
    milliseconds = int(str(timeout))
    return Handshake(
        SlotState(**json.loads(str(rows[0][0]))) if rows else None,
        found,
        Server(str(system), str(database), lsn.parse(str(wal_end)), in_recovery, timeline),
        timeline,
        None if origin is None else int(str(origin)),
        int(str(pid)),
        str(encoding),
        min(10.0, milliseconds / 4000) if milliseconds else 10.0,
    )


def start(
    connection: ReplicationConnection,
    slot: str,
    position: int,
    tables: tuple[Table, ...],
    ignored_origin: int | None,
    message_prefix: str | None = None,
) -> None:
    """Start to stream the slot. Raises SlotInUse and other LoaderErrors."""
    names = [(table.schema, table.name) for table in tables]
    try:
        connection.start(slot, position, wal2json.options(names, ignored_origin, message_prefix))
    except ProtocolError as error:
        raise protocol_error(error, slot) from error
