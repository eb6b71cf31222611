"""Reads the tables on a physical standby, whose replay is paused meanwhile; the primary is spared.

A standby shows transactions in the order of their commit records. While replay is paused it shows
exactly those whose commit record ends at or before the replayed position; the stream has all whose
commit record begins there or later. What is only prepared there comes from the stream.

The standby must follow the slot's primary: system identifier and timeline are compared.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from types import FrameType

from common.command import Settings
from common.connections import connect, exported_snapshot, resolved
from common.errors import AnotherSeed, SnapshotBlocked, SnapshotTooOld, StandbyUnusable
from common.progress import print_status
from psycopg2 import errors

from counting.snapshot import ExportedSnapshot, Leaves, changed_table, leaves_of, lock
from loader.staging.records import SlotPosition
from waltally import locks, lsn
from waltally.database import Connection
from waltally.errors import AnotherCluster, CannotConnect, Interrupted, LoaderError, MissingRight
from waltally.facts import Fact
from waltally.tables import quoted

_POLL_SECONDS = 0.1
_RESUME = "select pg_wal_replay_resume();"


def check(standby: Connection, slot: SlotPosition) -> None:
    """Raise unless the server is a standby of the slot's server and its replay may be paused."""
    (row,) = standby.ask(
        "select pg_is_in_recovery(), system_identifier::text, current_database(),"
        " has_function_privilege('pg_catalog.pg_wal_replay_pause()', 'execute')"
        " and has_function_privilege('pg_catalog.pg_wal_replay_resume()', 'execute')"
        " from pg_control_system()"
    )
    in_recovery, identifier, database, may_pause = row
    if (identifier, database) != (slot.system_identifier, slot.source_database):
        raise AnotherCluster(
            f"the change log was staged from database {slot.source_database} of cluster"
            f" {slot.system_identifier}; the standby is {database} of {identifier}",
            "point --standby or LOADER_STANDBY_DSN at a standby of the server that `loader setup`"
            " was run on, with the same database",
        )
    if in_recovery is not True:
        raise StandbyUnusable(
            "the server of --standby is not in recovery: it is a primary",
            "leave --standby out to read the tables on the primary",
        )
    if may_pause is not True:
        user = quoted(standby.info.user)
        raise MissingRight(
            f"role {standby.info.user} may not pause the standby's replay",
            "run on the primary, in the same database: grant execute on function"
            f" pg_catalog.pg_wal_replay_pause(), pg_catalog.pg_wal_replay_resume() to {user};",
        )


@contextlib.contextmanager
def export(
    settings: Settings, facts: Sequence[Fact], monitor: Connection, least: int
) -> Iterator[ExportedSnapshot]:
    """Yield a snapshot at the replayed position; at the end, replay goes on.

    Waits until replay has passed `least`. A signal that ends the process ends the block too.
    Raises StandbyUnusable, AnotherSeed, SnapshotTooOld, SnapshotBlocked.
    """
    deadline = time.monotonic() + settings.timeout
    conninfo = resolved(monitor)
    with contextlib.ExitStack() as process:
        process.enter_context(terminated_as_exit())
        _wait_for_replay(monitor, least, deadline, settings)
        while True:
            with contextlib.ExitStack() as stack:
                # While replay pauses it cannot give up a lock that it holds: ours come before.
                holding = stack.enter_context(contextlib.closing(connect(conninfo, "standby")))
                locked = _lock(holding, settings, facts, deadline)
                stack.enter_context(_paused(monitor, conninfo, deadline, settings))
                found = leaves_of(monitor, facts)
                if locked is None or not _lives(holding):
                    happened = "replay ended the session that locked the tables"
                elif (table := changed_table(found, locked)) is not None:
                    happened = f"{table} was truncated, altered or given partitions"
                else:
                    holder = stack.enter_context(contextlib.closing(connect(conninfo, "standby")))
                    name = stack.enter_context(exported_snapshot(holder))
                    pids = (holder.info.backend_pid, holding.info.backend_pid)
                    position = replayed(monitor)
                    # A lock that outlived the pause would be in replay's way.
                    stack.callback(holding.close)
                    yield ExportedSnapshot(
                        position, name, conninfo, found, monitor, pids, settings.work, True
                    )
                    return
            if time.monotonic() > deadline:
                raise SnapshotBlocked(
                    f"before replay paused, {happened}, at each try for {settings.timeout:.0f} s",
                    f"run the {settings.work} when DDL and VACUUM on the primary are done, or raise"
                    " --timeout or the standby's max_standby_streaming_delay",
                )
            print_status(
                f"before replay paused, {happened}, so the {settings.work} locks them again"
            )


def _lock(
    session: Connection, settings: Settings, facts: Sequence[Fact], deadline: float
) -> Leaves | None:
    """Lock the tables and return their leaves, or None where replay ended the session.

    Replay ends sessions whose locks are in its way, for instance before VACUUM's truncation of a
    table's end.
    """
    try:
        lock(session, settings, facts, deadline)
        return leaves_of(session, facts)
    except (CannotConnect, Interrupted):
        return None


def _lives(session: Connection) -> bool:
    try:
        session.ask("select")
    except (CannotConnect, Interrupted):
        return False
    return True


def replayed(standby: Connection) -> int:
    """Return the replayed position. Raises StandbyUnusable where there is none."""
    ((position,),) = standby.ask("select pg_last_wal_replay_lsn()::text")
    if position is None:
        raise StandbyUnusable("the standby has replayed nothing", "wait until it follows")
    return lsn.parse(str(position))


def _wait_for_replay(standby: Connection, least: int, deadline: float, settings: Settings) -> None:
    while (position := replayed(standby)) < least:
        if time.monotonic() > deadline:
            raise SnapshotTooOld(
                f"after {settings.timeout:.0f} s the standby has replayed up to"
                f" {lsn.show(position)}; a baseline of it must not be older than"
                f" {lsn.show(least)}",
                "see that the standby follows, or raise --timeout",
            )
        time.sleep(_POLL_SECONDS)


@contextlib.contextmanager
def _paused(
    standby: Connection, conninfo: str, deadline: float, settings: Settings
) -> Iterator[None]:
    """Pause replay for the block.

    A replay that is paused already stays so: a person may want it, and a killed seed cannot be
    told from one.
    """
    if not locks.acquire(standby, "standby"):
        raise AnotherSeed(
            "another seed is reading from the standby", "let it end, then run the seed again"
        )
    if _pause_state(standby) != "not paused":
        raise StandbyUnusable(
            "replay on the standby is paused already, by a person or by a seed that was killed",
            f"run on the standby: {_RESUME}",
        )
    print_status(f"pausing replay; should this process be killed, run on the standby: {_RESUME}")
    try:
        standby.ask("select pg_wal_replay_pause()")
        while _pause_state(standby) != "paused":
            if time.monotonic() > deadline:
                raise StandbyUnusable(
                    f"replay on the standby did not pause within {settings.timeout:.0f} s: a query"
                    " there may be in its way",
                    "let long queries on the standby end, or raise --timeout",
                )
            time.sleep(_POLL_SECONDS)
        yield
    finally:
        _resume(standby, conninfo)


def _resume(standby: Connection, conninfo: str) -> None:
    """Let replay go on, with another session where this one has ended."""
    try:
        standby.ask("select pg_wal_replay_resume()")
    except LoaderError as error:
        if _is_promoted(error):
            return
        try:
            with contextlib.closing(connect(conninfo, "standby")) as other:
                other.ask("select pg_wal_replay_resume()")
        except Exception:  # what ended the session is reported already
            print_status(f"replay on the standby may still be paused; run there: {_RESUME}")


def _pause_state(standby: Connection) -> str:
    try:
        ((state,),) = standby.ask("select pg_get_wal_replay_pause_state()")
    except LoaderError as error:
        if not _is_promoted(error):
            raise
        raise StandbyUnusable(
            "the standby was promoted", "leave --standby out, or name another standby"
        ) from None
    return str(state)


def _is_promoted(error: LoaderError) -> bool:
    return isinstance(error.__cause__, errors.ObjectNotInPrerequisiteState)


@contextlib.contextmanager
def terminated_as_exit() -> Iterator[None]:
    """Let SIGTERM end the block by an exception, so that what it holds is released."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def leave(number: int, frame: FrameType | None) -> None:
        # A second one must not end what the first one has begun to release.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        sys.exit(128 + number)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
