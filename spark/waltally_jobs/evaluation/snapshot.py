"""Exports a snapshot with a temporary slot and waits until it is safe to read from."""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from concurrent import futures
from dataclasses import dataclass, field

from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg2 import Error, errors

from loader.source import slot_admin
from loader.source.fingerprint import FingerprintCatalog
from loader.source.remedies import slot_finding
from loader.staging.logged_tables import alterations
from waltally import lsn
from waltally.database import Connection
from waltally.errors import Interrupted, LoaderError
from waltally.models import Model, needed_columns, source_tables
from waltally.server_errors import ServerError
from waltally.tables import Table
from waltally_jobs.common.command import Settings
from waltally_jobs.common.connections import connect, resolved
from waltally_jobs.common.errors import BeginAgain, SnapshotBlocked, SnapshotLost
from waltally_jobs.common.progress import polls, print_status
from waltally_jobs.evaluation import ranges
from waltally_jobs.evaluation.giving_way import Watch, watching
from waltally_jobs.evaluation.visibility import Visibility, unfinished

Leaves = list[tuple[Table, list[ranges.Leaf]]]
"""By table of the models, in their order: what holds the rows, itself or its partitions."""


def leaves_of(connection: Connection, models: Sequence[Model], sized: bool = False) -> Leaves:
    """Return what holds the rows of the models' tables, as the session sees it now."""
    return [
        (table, ranges.leaves(connection, table, needed_columns(models, table), sized))
        for table in source_tables(models)
    ]


@contextlib.contextmanager
def imported(conninfo: str, name: str) -> Iterator[Connection]:
    """Yield a session of its own at the source, which reads in an exported snapshot."""
    with contextlib.closing(connect(conninfo, "source")) as importer:
        importer.ask("begin isolation level repeatable read read only")
        importer.ask(f"set transaction snapshot '{name}'")
        yield importer


def altered_table(before: FingerprintCatalog, now: FingerprintCatalog) -> Table | None:
    """Return the first table that is not what it was, as where a label has another name; or None.

    The values of a snapshot are printed with the names of now.
    """
    for table, own in now.fingerprints.items():
        if alterations(before.fingerprints[table], own):
            return table
    return None


def changed_table(found: Leaves, now: Leaves) -> Table | None:
    """Return the first table of which a leaf that was found is not there as it was, or None.

    A table that was truncated or rewritten after the snapshot looks empty in it, with no error.
    `now` lacks the tables of models that are not compared.
    """
    before = dict(found)
    for table, after in now:
        if not all(leaf in after for leaf in before[table]):
            return table
    return None


@dataclass(frozen=True)
class ExportedSnapshot:
    """A snapshot at `position` that can be imported while its session lives.

    No lock is held: whether a table was still the same is asked after it was read. `readers` is
    what tasks connect with, whose sessions give way.
    """

    position: int
    name: str
    readers: str = field(repr=False)
    found: Leaves
    tables: FingerprintCatalog
    """What they were before the snapshot was taken."""
    monitor: Connection
    watch: Watch

    @property
    def rows(self) -> int:
        """About how many rows the tables have."""
        return sum(leaf.rows for _, leaves in self.found for leaf in leaves)

    def check(self) -> None:
        """Raise BeginAgain if it gave way. Nobody reads in it once its session has ended."""
        if self.watch.gave_up:
            raise BeginAgain(self.watch.gave_up)

    def verify(self, models: Sequence[Model]) -> None:
        """Raise BeginAgain unless the tables are still those that were read, all to the end."""
        now = leaves_of(self.monitor, models)
        table = changed_table(self.found, now) or altered_table(
            self.tables, FingerprintCatalog(self.monitor, models)
        )
        if table is not None:
            raise BeginAgain(f"{table} was truncated, altered or replaced while it was read")


@contextlib.contextmanager
def export(
    settings: Settings, models: Sequence[Model], monitor: Connection
) -> Iterator[ExportedSnapshot]:
    """Yield a snapshot of the models' tables; at the end slot, snapshot and locks are released.

    `monitor` is an idle session at the source. Raises SnapshotBlocked after `settings.timeout`
    seconds, BeginAgain, and what `open_slot` raises.
    """
    deadline = time.monotonic() + settings.timeout
    conninfo = resolved(monitor)
    while True:
        with contextlib.ExitStack() as stack:
            holder = stack.enter_context(contextlib.closing(connect_replication(conninfo)))
            slot = f"waltally_{settings.work}_{uuid.uuid4().hex[:16]}"
            tables = FingerprintCatalog(monitor, models)
            position, name = open_slot(holder, slot, monitor, settings, deadline)
            watch = stack.enter_context(watching(conninfo, slot, holder))
            try:
                with imported(conninfo, name) as importer:
                    watch.holds(importer)
                    wait_until_safe(importer, monitor, deadline, settings.timeout)
                    found = _sized(importer, models, settings, deadline)
                # What is attached until here is the table's, and later is not.
                now = leaves_of(monitor, models)
                table = changed_table(found, now) or changed_table(now, found)
                if table is None:
                    readers = make_conninfo(for_readers(conninfo), application_name=slot)
                    yield ExportedSnapshot(position, name, readers, found, tables, monitor, watch)
                    return
            except LoaderError:
                # A session that was cut may fail anywhere.
                if watch.gave_up:
                    raise BeginAgain(watch.gave_up) from None
                raise
        if time.monotonic() > deadline:
            raise SnapshotBlocked(
                f"{table} was truncated, altered or given partitions at each try for"
                f" {settings.timeout:.0f} s",
                f"run the {settings.work} when its DDL is done",
            )
        print_status(
            f"{table} was truncated, altered or given partitions, so a new snapshot is made"
        )


def _sized(
    importer: Connection, models: Sequence[Model], settings: Settings, deadline: float
) -> Leaves:
    """Return the leaves in the snapshot, with their sizes. Raises SnapshotBlocked."""
    importer.ask("set local lock_timeout = '10ms'")

    def overdue() -> SnapshotBlocked:
        return SnapshotBlocked(
            f"a table was still locked after {settings.timeout:.0f} s",
            "let the ALTER, TRUNCATE or VACUUM FULL end, or raise --timeout",
        )

    for _ in polls(deadline, overdue, lambda: print_status("waiting for a locked table")):
        importer.ask("savepoint sizes")
        try:
            return leaves_of(importer, models, sized=True)
        except Interrupted as error:
            if not isinstance(error.__cause__, errors.LockNotAvailable):
                raise
        importer.ask("rollback to savepoint sizes")
    raise AssertionError


def connect_replication(conninfo: str) -> Connection:
    """Open a replication session. Raises NoFreeSlot, MissingRight, CannotConnect, LoginRefused."""
    try:
        return connect(make_conninfo(conninfo, replication="database"), "source")
    except LoaderError as error:
        cause = error.__cause__
        assert isinstance(cause, Error)
        role = str(conninfo_to_dict(conninfo).get("user", ""))
        raise slot_finding(ServerError.of(cause), "", role) or error from None


def open_slot(
    holder: Connection, slot: str, monitor: Connection, settings: Settings, deadline: float
) -> tuple[int, str]:
    """Make the temporary slot; return its consistent point and the snapshot's name.

    The server first waits for every transaction that is writing. The snapshot ends with the
    session's next command, so the session must not run one.
    """
    command = f"CREATE_REPLICATION_SLOT {slot} TEMPORARY LOGICAL wal2json (SNAPSHOT 'export')"

    def overdue() -> SnapshotBlocked:
        writers = _writers(monitor)
        return SnapshotBlocked(
            f"the snapshot was not ready within {settings.timeout:.0f} s: it waits for every"
            f" transaction that is writing, {slot_admin.describe_writers(writers)}",
            "let them end or end them, or raise --timeout" + slot_admin.ends_of_prepared(writers),
        )

    with futures.ThreadPoolExecutor(1) as pool:
        creation = pool.submit(holder.ask, command)
        try:
            for _ in polls(
                deadline, overdue, lambda: print_waiting("writers", _writers(monitor)), pause=0.01
            ):
                if creation.done():
                    break
        finally:
            # Else the thread waits until the server ends the command.
            if not creation.done():
                holder.cancel()
    try:
        ((_, position, name, _),) = creation.result()
    except LoaderError as error:
        cause = error.__cause__
        assert isinstance(cause, Error)
        raise slot_admin.creation_finding(cause, holder) or SnapshotLost(
            f"the slot could not be made: {str(cause).strip()}", f"run the {settings.work} again"
        ) from None
    return lsn.parse(position), name


def wait_until_safe(
    importer: Connection, monitor: Connection, deadline: float, timeout: float
) -> None:
    """Wait until every transaction that the snapshot takes for finished has ended."""
    shown = current_snapshot(importer)
    running: list[int] = []

    def overdue() -> SnapshotBlocked:
        return SnapshotBlocked(
            f"a transaction has not ended its commit within {timeout:.0f} s,"
            f" {slot_admin.describe_writers(_writers(monitor, running))}",
            "see what its commit waits for, for instance a synchronous standby",
        )

    def say() -> None:
        print_waiting("commits to end", _writers(monitor, running))

    for _ in polls(deadline, overdue, say):
        running = unfinished(shown, current_snapshot(monitor))
        if not running:
            return


def print_waiting(what: str, writers: slot_admin.Writers) -> None:
    """Say who is waited for, but for sessions of ours, whose transactions are short."""
    others = [each for each in writers if not str(each[5]).startswith("waltally ")]
    if others or not writers:
        print_status(f"waiting for {what}, {slot_admin.describe_writers(others)}")


def _writers(monitor: Connection, xids: Iterable[int] | None = None) -> slot_admin.Writers:
    numbers = None if xids is None else [xid & 0xFFFFFFFF for xid in xids]
    return monitor.ask(slot_admin.WRITERS, {"xids": numbers})


def current_snapshot(connection: Connection) -> Visibility:
    """Return what the session sees now. As text: a slot's snapshot can fail a cast."""
    ((text,),) = connection.ask("select pg_current_snapshot()::text")
    return Visibility.parse(text)


_READING = " ".join(
    f"-c {setting}"
    for setting in (
        *("enable_tidscan=on", "enable_hashagg=on", "work_mem=64MB"),
        *("max_parallel_workers_per_gather=0", "jit=off"),
    )
)


def for_readers(conninfo: str) -> str:
    """Return the connection string with what reading and grouping by ranges rely on.

    A range is read by its addresses, in one process, and its groups fit in memory.
    """
    users = conninfo_to_dict(conninfo).get("options") or ""
    return make_conninfo(conninfo, options=f"{users} {_READING}".strip())
