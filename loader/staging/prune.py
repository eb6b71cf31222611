"""Takes partitions out of the change log that nobody needs, without a lock that stops anybody.

Ordered so that a crash at any step leaves valid state: start_lsn moves up first, so that nobody
counts on the rows any more, and the same transaction marks the partition; then the partition is
detached, then dropped. The next prune finishes what one left, or the loader does where it needs
the partition's place.

The locks of the partition are waited for first, and only then the slots' rows are locked, without
waiting: a prune that waits holds nothing that a loader or a build needs for longer than a try.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from psycopg2 import extensions, sql

from loader.staging import migrate
from loader.staging.pruned import IS_LIKE_THE_LOG, IS_MARKED, LOCK, MARK
from loader.staging.retention import (
    Archive,
    Blocker,
    Consumers,
    Partition,
    Watermark,
    find_blockers,
    find_detached_blockers,
    plan,
)
from loader.staging.target_state import SLOT_POSITIONS, slot_position
from waltally import failpoints, lsn
from waltally.database import connect, explained
from waltally.errors import Interrupted, NotSetUp
from waltally.settings import Settings
from waltally.tables import Table

_PARTITIONS = f"""
select
    c.relname,
    case when i.inhparent is null then 'detached' when i.inhdetachpending then 'pending'
        else 'attached' end,
    coalesce(pg_total_relation_size(c.oid), 0),
    pg_get_expr(c.relpartbound, c.oid),
    {IS_MARKED}
from pg_class as c
inner join pg_namespace as n on n.oid = c.relnamespace
inner join pg_class as log on log.relnamespace = n.oid and log.relname = 'change_log'
left join pg_inherits as i on i.inhrelid = c.oid and i.inhparent = log.oid
where
    n.nspname = %s
    and c.relname ~ '^change_log_[0-9a-f]{{{{8}}}}$'
    and {IS_LIKE_THE_LOG}
order by c.relname
"""

# Row by row over the primary key: first the slots that the partition has, then each one's last row.
_AGE = """
with recursive slot (name) as (
    (select slot_name from {0}.{1} order by slot_name limit 1)
    union all
    select (select slot_name from {0}.{1} where slot_name > slot.name order by slot_name limit 1)
    from slot
    where slot.name is not null
)
select extract(epoch from now() - max(newest.staged_at))::float8
from slot
cross join lateral (
    select staged_at from {0}.{1} as log
    where log.slot_name = slot.name
    order by log.slot_name desc, log.commit_lsn desc, log.ordinal desc
    limit 1
) as newest
"""

_SLOTS = f"{SLOT_POSITIONS} order by slot_name"
_WATERMARKS = """
select
    model_name,
    slot_name,
    applied_lsn,
    exists (
        select from pg_class as c
        inner join pg_namespace as n on n.oid = c.relnamespace
        where n.nspname || '.' || c.relname = model_name
    )
from {0}.model_watermark
order by model_name
"""
# A seed of another cluster than the slot's feeds no rebuild.
_SEEDS = """
select slot_name, seed.snapshot_lsn
from {0}.historical_snapshot as seed
inner join {0}.slot_position using (slot_name, system_identifier)
"""
_ARCHIVES = "select slot_name, from_lsn, archived_lsn from {0}.archive_position"

_MOVE_START = """
update {0}.slot_position
set pruned_from_lsn = coalesce(pruned_from_lsn, start_lsn), start_lsn = %(end)s
where start_lsn < %(end)s
"""

# Who reads the partition by its own name. Whoever came to it by the log's name is waited for by the
# detach itself, which holds nothing meanwhile.
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

_TRY_SECONDS = 2
"""The longest wait for a lock while another is held; an autovacuum gives way within a second."""
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

    `timeout` bounds, in seconds, each wait for another prune or a setup and for whoever uses a
    partition or has used the log since before the partition left it. With `dry_run` nothing
    changes. Raises NotSetUp where there is no log, Interrupted where another prune goes on.
    """
    with closing(connect(settings.target, "target")) as connection:
        if migrate.version(connection, settings.schema) < migrate.migrations()[-1][0]:
            raise NotSetUp(
                f"The staging schema {settings.schema} is not there or not up to date",
                "run `loader setup`",
            )
        log = _Log(connection, settings.schema, timeout)
        if not dry_run:
            log.acquire_prune_lock()
        consumers = log.consumers()
        if not consumers.slots:
            raise NotSetUp(f"No slot is set up in schema {settings.schema}", "run `loader setup`")
        planned = plan(log.partitions(), consumers, keep)
        if dry_run:
            return [
                Outcome(each, "kept" if blockers else "would drop", blockers)
                for each, blockers in planned
            ]
        return list(_apply(log, planned, keep))


def _apply(
    log: _Log, planned: Iterable[tuple[Partition, list[Blocker]]], keep: float
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
            # What holds it is asked again just before: something may have changed since the plan.
            blockers = log.drop(partition, keep)
            yield Outcome(partition, "kept" if blockers else "dropped", blockers)
        except Interrupted as error:
            blockers = [Blocker(f"another session still uses the log ({error})", _WHEN_IT_ENDS)]
            yield Outcome(partition, "left", blockers)
        if blockers:
            first_blocker = Blocker(f"{partition.name} goes first")


class _Log:
    """The change log at the target, in a session of its own."""

    def __init__(self, connection: extensions.connection, schema: str, timeout: int) -> None:
        self._connection = connection
        self._schema = schema
        self._timeout = timeout
        connection.autocommit = True
        with explained("target"), connection.cursor() as cursor:
            cursor.execute("select set_config('lock_timeout', %s, false)", (f"{timeout}s",))
            # A killed prune must not hold its lock until the wait is over.
            cursor.execute("set client_connection_check_interval to '1s'")

    def acquire_prune_lock(self) -> None:
        """Hold off every other prune until the session ends. Raises Interrupted."""
        deadline = time.monotonic() + self._timeout
        # Asked again and again: a session that waits in a statement would hold up a detach.
        while not self._ask(f"select 1 where pg_try_advisory_lock({LOCK})", self._schema):
            if time.monotonic() > deadline:
                raise Interrupted(
                    f"Another prune or a setup of schema {self._schema} is running",
                    "let it end; pg_locks shows it as advisory",
                )
            time.sleep(0.2)

    def partitions(self) -> list[Partition]:
        """Return the loader's partitions; what has other columns or bounds is somebody else's."""
        found = []
        for name, state, size, bounds, is_pruned in self._ask(_PARTITIONS, self._schema):
            number = int(name[-8:], 16)
            partition = Partition(number, state, size, None, is_pruned)
            first, end = lsn.show(partition.from_lsn), lsn.show(partition.to_lsn)
            if state == "detached" or bounds == f"FOR VALUES FROM ('{first}') TO ('{end}')":
                found.append(Partition(number, state, size, self._age(name), is_pruned))
        return found

    def consumers(self, lock: bool = False) -> Consumers:
        """Return what those who need the log say; `lock` keeps the slots' rows as they are.

        Raises Interrupted where a slot's row is locked by somebody else at the moment.
        """
        slots = self._ask(_SLOTS + (" for no key update nowait" if lock else ""))
        return Consumers(
            self._schema,
            tuple(map(slot_position, slots)),
            tuple(
                Watermark(model, slot, lsn.parse(applied), exists)
                for model, slot, applied, exists in self._ask(_WATERMARKS)
            ),
            {slot: lsn.parse(at) for slot, at in self._ask(_SEEDS)},
            tuple(
                Archive(slot, lsn.parse(first), lsn.parse(end))
                for slot, first, end in self._ask(_ARCHIVES)
            ),
        )

    def drop(self, partition: Partition, keep: float) -> list[Blocker]:
        """Drop the partition, or return what holds it now. Raises Interrupted."""
        if partition.state == "attached":
            if found := self._in_tries(lambda: self._move_start(partition, keep)):
                return found
            failpoints.reach("start-moved")
            self._in_tries(lambda: self._refuse_direct_readers(partition))
            self._run(_DETACH + "concurrently", table=partition.name)
        elif partition.state == "pending":
            self._in_tries(lambda: self._finish_detach(partition))
        failpoints.reach("partition-detached")
        return self._in_tries(lambda: self._drop(partition))

    def _in_tries(self, step: Callable[[], Result]) -> Result:
        """Return what the step returns, tried again while others are in its way."""
        deadline = time.monotonic() + self._timeout
        while True:
            try:
                return step()
            except Interrupted:
                if time.monotonic() > deadline:
                    raise
            # Between two tries nothing is locked, so whoever waits for us gets its turn.
            time.sleep(_PAUSE_SECONDS)

    def _move_start(self, partition: Partition, keep: float) -> list[Blocker]:
        with self._transaction():
            self._run(f"comment on table {{0}}.{{1}} is '{MARK}'", table=partition.name)
            found = find_blockers(partition, self._locked_consumers(), keep)
            if found:
                self._connection.rollback()
            else:
                self._run(_MOVE_START, {"end": lsn.show(partition.to_lsn)})
        return found

    def _refuse_direct_readers(self, partition: Partition) -> None:
        """Raise Interrupted while a session reads the partition by its own name.

        The detach would wait for it with a lock that keeps the loader from attaching another one.
        """
        names = [Table(self._schema, name).quoted for name in (partition.name, "change_log")]
        ((pids,),) = self._ask(_DIRECT_READERS, *names)
        if pids:
            raise Interrupted(f"process {pids} reads {partition.name} by its own name")

    def _finish_detach(self, partition: Partition) -> None:
        with self._transaction():
            self._run(_DETACH + "finalize", table=partition.name)

    def _drop(self, partition: Partition) -> list[Blocker]:
        with self._transaction():
            self._run("lock table {0}.{1} in access exclusive mode", table=partition.name)
            found = find_detached_blockers(partition, self._locked_consumers())
            if not found:
                self._run("drop table {0}.{1}", table=partition.name)
        return found

    def _locked_consumers(self) -> Consumers:
        # The first reading takes the locks of all tables, so the second one, which locks the rows
        # that a loader writes, waits for nobody.
        self.consumers()
        return self.consumers(lock=True)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        # The driver begins one where autocommit is off; the connection commits at the end of it.
        self._connection.autocommit = False
        try:
            with explained("target"), self._connection:
                self._run(f"set local lock_timeout = '{min(_TRY_SECONDS, self._timeout)}s'")
                yield
        finally:
            if not self._connection.closed:
                self._connection.autocommit = True

    def _age(self, name: str) -> float | None:
        ((age,),) = self._ask(_AGE, table=name)
        return None if age is None else float(age)

    def _ask(self, query: str, *values: object, table: str = "") -> list[tuple[Any, ...]]:
        with explained("target"), self._connection.cursor() as cursor:
            cursor.execute(self._named(query, table), values or None)
            return cursor.fetchall()

    def _run(
        self, statement: str, values: dict[str, object] | None = None, table: str = ""
    ) -> None:
        with explained("target"), self._connection.cursor() as cursor:
            cursor.execute(self._named(statement, table), values)

    def _named(self, statement: str, table: str) -> sql.Composed:
        return sql.SQL(statement).format(sql.Identifier(self._schema), sql.Identifier(table))
