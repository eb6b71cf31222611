"""Drops partitions of the change log that nobody needs, without blocking anybody.

Ordered so that a crash at any step leaves valid state: start_lsn moves up first, so that nobody
relies on the rows any more, and the same transaction marks the partition; then the partition is
detached, then dropped. The next prune finishes what one left, or the loader does where it needs
the partition's place.

A prune first waits for the partition's locks and then locks the slots' rows without waiting. So
while it waits it holds nothing that a loader or a build needs for longer than one try.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Literal, TypeVar

from loader.staging import migrate
from loader.staging.log_consumers import Consumers
from loader.staging.prune_session import PruneSession, read_consumers, read_partitions
from loader.staging.pruned import MARK
from loader.staging.retention import (
    Blocker,
    Partition,
    find_blockers,
    find_detached_blockers,
    plan,
)
from waltally import failpoints, lsn
from waltally.database import connect
from waltally.errors import Interrupted, NotSetUp
from waltally.settings import Settings
from waltally.tables import Table

_MOVE_START = """
update {0}.slot_position
set pruned_from_lsn = coalesce(pruned_from_lsn, start_lsn), start_lsn = %(end)s
where start_lsn < %(end)s
"""

# Sessions that read the partition by its own name. For sessions that read it through the log the
# detach itself waits, and it holds nothing meanwhile.
_DIRECT_READERS = """
select string_agg(distinct held.pid::text, ', ')
from pg_locks as held
where
    held.relation = to_regclass(%s)
    and held.database = (select oid from pg_database where datname = current_database())
    and held.mode in ('AccessShareLock', 'RowShareLock', 'RowExclusiveLock')
    and held.pid is distinct from pg_backend_pid()
    and not exists (
        select from pg_locks as parent
        where
            parent.virtualtransaction = held.virtualtransaction
            and parent.relation = to_regclass(%s)
    )
"""

_PAUSE_SECONDS = 0.2

_DETACH = "alter table {0}.change_log detach partition {0}.{1} "

_WHEN_IT_ENDS = (
    "loader prune again once that session has ended; pg_stat_activity shows open transactions"
)

Result = TypeVar("Result")
Status = Literal["would drop", "dropped", "kept", "left"]


@dataclass(frozen=True)
class Outcome:
    """What became of a partition: `left` is one that could not be dropped now."""

    partition: Partition
    status: Status
    blockers: list[Blocker]


def prune(settings: Settings, keep: float, timeout: int, dry_run: bool) -> list[Outcome]:
    """Drop the partitions that nobody needs and whose newest row is older than `keep` seconds.

    `timeout` is in seconds, for each wait: for another prune or a setup, and for sessions that use
    a partition or have used the log since before the partition was detached. With `dry_run` nothing
    changes. Raises NotSetUp where there is no log, Interrupted where another prune goes on.
    """
    with closing(connect(settings.target, "target")) as connection:
        if migrate.version(connection, settings.schema) < migrate.migrations()[-1][0]:
            raise NotSetUp(
                f"The staging schema {settings.schema} is not there or not up to date",
                "run `loader setup`",
            )
        session = PruneSession(connection, settings.schema, timeout)
        if not dry_run:
            session.acquire_prune_lock()
        consumers = read_consumers(session)
        if not consumers.slots:
            raise NotSetUp(f"No slot is set up in schema {settings.schema}", "run `loader setup`")
        planned = plan(read_partitions(session), consumers, keep)
        if dry_run:
            return [
                Outcome(each, "kept" if blockers else "would drop", blockers)
                for each, blockers in planned
            ]
        return list(_apply(_Dropper(session), planned, keep))


def _apply(
    dropper: _Dropper, planned: Iterable[tuple[Partition, list[Blocker]]], keep: float
) -> Iterator[Outcome]:
    first_blocker: Blocker | None = None
    for partition, blockers in planned:
        if blockers:
            yield Outcome(partition, "kept", blockers)
            continue
        if first_blocker is not None:
            yield Outcome(partition, "left", [first_blocker])
            continue
        try:
            # The blockers are read again just before: they may have changed since the plan.
            blockers = dropper.drop(partition, keep)
            yield Outcome(partition, "kept" if blockers else "dropped", blockers)
        except Interrupted as error:
            blockers = [Blocker(f"another session still uses the log ({error})", _WHEN_IT_ENDS)]
            yield Outcome(partition, "left", blockers)
        if blockers:
            first_blocker = Blocker(f"{partition.name} goes first")


class _Dropper:
    """Drops one partition after another."""

    def __init__(self, session: PruneSession) -> None:
        self._session = session

    def drop(self, partition: Partition, keep: float) -> list[Blocker]:
        """Drop the partition, or return its blockers. Raises Interrupted."""
        if partition.state == "attached":
            if found := self._retry(lambda: self._move_start(partition, keep)):
                return found
            failpoints.reach("start-moved")
            self._retry(lambda: self._check_direct_readers(partition))
            self._session.run(_DETACH + "concurrently", table=partition.name)
        elif partition.state == "pending":
            self._retry(lambda: self._finish_detach(partition))
        failpoints.reach("partition-detached")
        return self._retry(lambda: self._drop(partition))

    def _retry(self, step: Callable[[], Result]) -> Result:
        """Run the step, again while other sessions block it, and return its result."""
        deadline = time.monotonic() + self._session.timeout
        while True:
            try:
                return step()
            except Interrupted:
                if time.monotonic() > deadline:
                    raise
            # Between two tries nothing is locked, so that sessions that wait for us can go on.
            time.sleep(_PAUSE_SECONDS)

    def _move_start(self, partition: Partition, keep: float) -> list[Blocker]:
        with self._session.transaction():
            self._session.run(f"comment on table {{0}}.{{1}} is '{MARK}'", table=partition.name)
            found = find_blockers(partition, self._locked_consumers(), keep)
            if found:
                self._session.connection.rollback()
            else:
                self._session.run(_MOVE_START, {"end": lsn.show(partition.to_lsn)})
        return found

    def _check_direct_readers(self, partition: Partition) -> None:
        """Raise Interrupted while a session reads the partition by its own name.

        The detach would wait for it with a lock that keeps the loader from attaching another one.
        """
        names = [
            Table(self._session.schema, name).quoted for name in (partition.name, "change_log")
        ]
        ((pids,),) = self._session.query(_DIRECT_READERS, *names)
        if pids:
            raise Interrupted(f"process {pids} reads {partition.name} by its own name")

    def _finish_detach(self, partition: Partition) -> None:
        with self._session.transaction():
            self._session.run(_DETACH + "finalize", table=partition.name)

    def _drop(self, partition: Partition) -> list[Blocker]:
        with self._session.transaction():
            self._session.run("lock table {0}.{1} in access exclusive mode", table=partition.name)
            found = find_detached_blockers(partition, self._locked_consumers())
            if not found:
                self._session.run("drop table {0}.{1}", table=partition.name)
        return found

    def _locked_consumers(self) -> Consumers:
        # The first reading takes the locks of all tables, so the second one, which locks the rows
        # that a loader writes, waits for nobody.
        read_consumers(self._session)
        return read_consumers(self._session, lock=True)
