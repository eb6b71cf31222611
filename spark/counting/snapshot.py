"""Exports a snapshot with a temporary slot and waits until it is safe to read from."""

from __future__ import annotations

import contextlib
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import psycopg
import psycopg2
from common.connections import Connection, connect, resolved
from common.errors import SnapshotBlocked, SnapshotLost, StandbyUnusable
from common.settings import Settings
from psycopg2.extras import LogicalReplicationConnection

from counting import leaves
from counting.leaves import Leaves
from counting.visibility import Visibility, unfinished
from loader.source import slot_admin
from loader.source.remedies import replication_remedy, senders_remedy
from waltally import lsn, open_transactions
from waltally.errors import CannotConnect, MissingRight, NoFreeSlot
from waltally.facts import Fact, needed_columns, source_tables
from waltally.login import one_line
from waltally.tables import Table, quoted

_POLL_SECONDS = 0.1
_WAIT_WHILE_HOLDING_MS = 10
"""Milliseconds, well below any deadlock_timeout, after which the server looks for a deadlock."""
Notify = Callable[[str], None]


@dataclass(frozen=True)
class ExportedSnapshot:
    """A snapshot at `position` that can be imported while both sessions live."""

    position: int
    name: str
    conninfo: str
    found: Leaves
    monitor: Connection
    pids: tuple[int, int]
    work: str
    is_standby: bool = False

    def __repr__(self) -> str:
        return f"ExportedSnapshot({self.name})"

    def check(self) -> None:
        """Raise unless the snapshot's session and the locks' session are still there.

        Raises SnapshotLost, and StandbyUnusable where the standby was promoted.
        """
        try:
            row = self.monitor.execute(
                "select count(*), pg_is_in_recovery() from pg_stat_activity where pid = any(%s)",
                (list(self.pids),),
            ).fetchone()
        except psycopg.OperationalError:
            row = None
        if row is not None and row[1] != self.is_standby:
            raise StandbyUnusable(
                f"the standby was promoted while the {self.work} read it",
                f"name another standby, or leave --standby out, and run the {self.work} again",
            )
        if row is None or row[0] != 2:
            raise SnapshotLost(
                "the session that holds the snapshot or the table locks has ended",
                f"run the {self.work} again; see the source's log for who ended the session",
            )


@contextlib.contextmanager
def export(
    settings: Settings, facts: Sequence[Fact], monitor: Connection, notify: Notify
) -> Iterator[ExportedSnapshot]:
    """Yield a snapshot of the facts' tables; at the end slot, snapshot and locks are released.

    `monitor` is an idle session at the source. Raises SnapshotBlocked after `settings.timeout`
    seconds, and what `open_slot` raises.
    """
    deadline = time.monotonic() + settings.timeout
    conninfo = resolved(monitor)
    while True:
        with contextlib.ExitStack() as stack:
            holder = stack.enter_context(contextlib.closing(connect_replication(conninfo)))
            position, name = open_slot(holder, monitor, settings, deadline, notify)
            wait_until_safe(conninfo, name, monitor, deadline, settings.timeout, notify)
            # Before the locks: asking for a size waits behind a TRUNCATE that waits for the locks.
            found = leaves.in_snapshot(conninfo, name, facts)
            # Locked only now: a TRUNCATE that waits for the locks could be what the slot waits for.
            locks = stack.enter_context(contextlib.closing(connect(conninfo, "LOADER_SOURCE_DSN")))
            lock(locks, settings, facts, deadline)
            table = leaves.changed(found, leaves.of_facts(locks, facts))
            if table is None:
                pids = (holder.info.backend_pid, locks.info.backend_pid)
                yield ExportedSnapshot(
                    position, name, conninfo, found, monitor, pids, settings.work
                )
                return
        if time.monotonic() > deadline:
            raise SnapshotBlocked(
                f"{table} was truncated, altered or given partitions at each try for"
                f" {settings.timeout:.0f} s",
                f"run the {settings.work} when its DDL is done",
            )
        notify(f"{table} was truncated, altered or given partitions, so a new snapshot is made")


def lock(
    connection: Connection, settings: Settings, facts: Sequence[Fact], deadline: float
) -> None:
    """Hold ACCESS SHARE on the tables and their leaves in an open transaction.

    It waits only while it holds no lock. Otherwise an application that locks the tables in another
    order would meet a deadlock, and the server might roll the application's transaction back.
    """
    tables = list(source_tables(facts))
    while (blocked := _first_blocked(connection, settings, facts, tables, deadline)) is not None:
        tables.remove(blocked)
        tables.insert(0, blocked)


def _first_blocked(
    connection: Connection,
    settings: Settings,
    facts: Sequence[Fact],
    tables: Sequence[Table],
    deadline: float,
) -> Table | None:
    """Lock the tables in this order; return the one that was not free, with no lock held.

    The first is waited for, without its leaves. Raises SnapshotBlocked.
    """
    left = max(int((deadline - time.monotonic()) * 1000), 1)
    patience = min(left, _WAIT_WHILE_HOLDING_MS)
    steps = [(tables[0], "only ", left), *((table, "", patience) for table in tables)]
    connection.execute("begin")
    for table, only, milliseconds in steps:
        columns = ", ".join(map(quoted, needed_columns(facts, table)))
        connection.execute(f"set local lock_timeout = {milliseconds}")
        try:
            # LOCK TABLE would need the right to select every column.
            connection.execute(f"select {columns} from {only}{table.quoted} limit 0")
        except psycopg.errors.DeadlockDetected:
            # A server that had no CPU for a second looks for a deadlock before it sees the timeout.
            connection.execute("rollback")
            return table
        except psycopg.errors.LockNotAvailable:
            connection.execute("rollback")
            if milliseconds < left:
                return table
            raise SnapshotBlocked(
                f"table {table} was still locked after {settings.timeout:.0f} s",
                "let the ALTER, TRUNCATE or VACUUM FULL end, or raise --timeout",
            ) from None
    return None


def connect_replication(conninfo: str) -> LogicalReplicationConnection:
    """Open a replication session. Raises NoFreeSlot, MissingRight, CannotConnect."""
    try:
        return psycopg2.connect(conninfo, connection_factory=LogicalReplicationConnection)
    except psycopg2.OperationalError as error:
        text = one_line(error)
        if "max_wal_senders" in text:
            raise NoFreeSlot("the source has no free WAL sender", senders_remedy()) from None
        if "replication role" in text or "start WAL sender" in text:
            user = psycopg.conninfo.conninfo_to_dict(conninfo).get("user", "")
            raise MissingRight(text, replication_remedy(str(user))) from None
        raise CannotConnect(
            f"cannot connect for replication: {text}", "check pg_hba.conf for this role"
        ) from None


def open_slot(
    holder: LogicalReplicationConnection,
    monitor: Connection,
    settings: Settings,
    deadline: float,
    notify: Notify,
) -> tuple[int, str]:
    """Make the temporary slot; return its consistent point and the snapshot's name.

    The server first waits for every transaction that is writing. The snapshot ends with the
    session's next command, so the session must not run one.
    """
    cursor = holder.cursor()
    failed: list[psycopg2.Error] = []

    def create() -> None:
        # psycopg2's create_replication_slot() has no option for the snapshot.
        try:
            cursor.execute(
                f"CREATE_REPLICATION_SLOT waltally_{settings.work}_{uuid.uuid4().hex[:16]}"
                " TEMPORARY LOGICAL wal2json (SNAPSHOT 'export')"
            )
        except psycopg2.Error as error:
            failed.append(error)

    # In a thread, because the command blocks until the server ends or cancels it.
    creation = threading.Thread(target=create, daemon=True)
    creation.start()
    notified = time.monotonic()
    while creation.is_alive():
        creation.join(_POLL_SECONDS)
        now = time.monotonic()
        if creation.is_alive() and now > deadline:
            writers = _writers(monitor)
            holder.cancel()
            creation.join()
            raise SnapshotBlocked(
                f"the snapshot was not ready within {settings.timeout:.0f} s: it waits for every"
                f" transaction that is writing, {open_transactions.describe(writers)}",
                "let them end or end them, or raise --timeout"
                + open_transactions.ends_of_prepared(writers),
            )
        if creation.is_alive() and now > notified + 5:
            notified = now
            notify(f"waiting for writers, {open_transactions.describe(_writers(monitor))}")
    if failed:
        raise slot_admin.creation_finding(failed[0], holder) or SnapshotLost(
            f"the slot could not be made: {str(failed[0]).strip()}",
            f"run the {settings.work} again",
        ) from None
    row = cursor.fetchone()
    assert row is not None
    return lsn.parse(row[1]), row[2]


def wait_until_safe(
    conninfo: str,
    name: str,
    monitor: Connection,
    deadline: float,
    timeout: float,
    notify: Notify,
) -> None:
    """Wait until every transaction that the snapshot takes for finished has ended."""
    with contextlib.closing(connect(conninfo, "LOADER_SOURCE_DSN")) as importer:
        importer.execute("begin isolation level repeatable read read only")
        importer.execute(f"set transaction snapshot '{name}'")
        imported = current_snapshot(importer)
    notified = time.monotonic()
    while running := unfinished(imported, current_snapshot(monitor)):
        now = time.monotonic()
        if now > deadline:
            raise SnapshotBlocked(
                f"a transaction has not ended its commit within {timeout:.0f} s,"
                f" {open_transactions.describe(_writers(monitor, running))}",
                "see what its commit waits for, for instance a synchronous standby",
            )
        if now > notified + 5:
            notified = now
            writers = _writers(monitor, running)
            notify("waiting for commits to end, " + open_transactions.describe(writers))
        time.sleep(_POLL_SECONDS)


def _writers(monitor: Connection, xids: Iterable[int] | None = None) -> open_transactions.Writers:
    numbers = None if xids is None else [xid & 0xFFFFFFFF for xid in xids]
    return monitor.execute(open_transactions.WRITERS, {"xids": numbers}).fetchall()


def current_snapshot(connection: Connection) -> Visibility:
    """Return what the session sees now. As text: a slot's snapshot can fail a cast."""
    row = connection.execute("select pg_current_snapshot()::text").fetchone()
    assert row is not None
    return Visibility.parse(str(row[0]))
