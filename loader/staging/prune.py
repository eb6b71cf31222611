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
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from importlib import resources
from typing import Literal, TypeVar

from psycopg2.extras import Json

from loader.staging import migrate
from loader.staging.layout import PARTITION_NAME, Block
from loader.staging.partitions import (
    BESIDE_THE_LOG,
    IS_LIKE_THE_LOG,
    IS_MARKED,
    MARK,
    STATE,
    attach_sql,
)
from waltally import failpoints, locks, lsn
from waltally.database import Connection, connect
from waltally.errors import Interrupted, NotSetUp
from waltally.settings import Settings
from waltally.tables import Table, quoted
from waltally.units import duration

_PARTITIONS = f"""
select
    c.relname,
    {STATE},
    coalesce(pg_total_relation_size(c.oid), 0),
    c.reltuples::bigint,
    pg_get_expr(c.relpartbound, c.oid),
    {IS_MARKED}
from {BESIDE_THE_LOG}
where
    n.nspname = %s
    and c.relname ~ %s
    and {IS_LIKE_THE_LOG}
order by c.relname
"""

_COUNTED_BYTES = 64 * 2**20
"""The rows of a smaller partition are counted."""

# Fast, over the primary key: first the slots that the partition has, then each slot's last row.
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

_BLOCKERS = (resources.files("loader.staging") / "blockers.sql").read_text()

_LOCK_SLOTS = "select from {0}.slot_position order by slot_name for no key update nowait"

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
_TRY_SECONDS = 2
"""The longest wait for a lock while another is held; an autovacuum gives way within a second."""

_DETACH = "alter table {0}.change_log detach partition {0}.{1} "

_WHEN_IT_ENDS = (
    "loader prune again once that session has ended; pg_stat_activity shows open transactions"
)

Result = TypeVar("Result")
Status = Literal["would drop", "dropped", "kept", "left"]
State = Literal["attached", "pending", "detached"]
"""Pending: a detach has begun and waits for sessions that were reading the log before."""


@dataclass(frozen=True)
class Partition:
    """A partition of the change log, of `size` bytes with its indexes.

    `age` is its newest row's in seconds, None without rows.
    """

    block: Block
    state: State
    size: int
    age: float | None
    rows: int
    rows_estimated: bool
    is_pruned: bool
    """Whether a prune has marked it. Nobody needs its rows since then."""

    @property
    def name(self) -> str:
        """The table's name in the staging schema."""
        return self.block.name


@dataclass(frozen=True)
class Blocker:
    """Why a partition is kept, and the remedy where there is one."""

    reason: str
    remedy: str = ""


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
    schema = settings.schema
    with closing(connect(settings.target, "target")) as target:
        if migrate.version(target, schema) < migrate.migrations()[-1][0]:
            raise NotSetUp(
                f"The staging schema {schema} is not there or not up to date", "run `loader setup`"
            )
        target.ask("select set_config('lock_timeout', %s, false)", (f"{timeout}s",))
        # A killed prune must not hold its lock until the wait is over.
        target.ask("set client_connection_check_interval to '1s'")
        if not dry_run and not locks.acquire(target, "prune", schema, seconds=timeout):
            raise Interrupted(
                f"Another prune or a setup of schema {schema} is running",
                "let it end; pg_locks shows it as advisory",
            )
        if not target.ask("select 1 from {}.slot_position limit 1", None, schema):
            raise NotSetUp(f"No slot is set up in schema {schema}", "run `loader setup`")
        planned = _plan(target, schema, keep)
        if dry_run:
            return [
                Outcome(each, "kept" if blockers else "would drop", blockers)
                for each, blockers in planned
            ]
        return list(_apply(_Dropper(target, schema, keep, timeout), planned))


def _plan(
    target: Connection, schema: str, keep: float
) -> Iterator[tuple[Partition, list[Blocker]]]:
    """Yield each partition, the oldest first, with its blockers; without any it may be dropped.

    A partition is dropped only when all older ones are, so that the log has no gap.
    """
    partitions = sorted(_read_partitions(target, schema), key=lambda each: each.block)
    needed = _find_blockers(target, schema, partitions)
    last = max((each.block for each in partitions if each.state == "attached"), default=None)
    is_held = False
    for partition in partitions:
        found = needed[partition.name]
        if partition.state == "attached" and partition.block == last:
            what = " and empty" if partition.age is None else ""
            found = [Blocker(f"it is the newest partition{what}: the log goes on in it")]
        elif partition.state == "attached":
            found += _too_young(partition, keep)
            if is_held and not found:
                found = [Blocker("an older partition is kept")]
            is_held = is_held or bool(found)
        yield partition, found


def _read_partitions(target: Connection, schema: str) -> Iterator[Partition]:
    """Yield the loader's partitions. Tables with other columns or bounds are not ours."""
    for name, state, size, estimate, bounds, is_pruned in target.ask(
        _PARTITIONS, (schema, PARTITION_NAME)
    ):
        block = Block.named(name)
        if state != "detached" and bounds.lower() != f"for values {block.bounds}".lower():
            continue
        # A table that was never analyzed has no estimate; autovacuum analyzes every larger one.
        is_estimate = size >= _COUNTED_BYTES and estimate >= 0
        ((age,),) = target.ask(_AGE, None, schema, name)
        if not is_estimate:
            ((estimate,),) = target.ask("select count(*) from {}.{}", None, schema, name)
        yield Partition(block, state, size, age, estimate, is_estimate, is_pruned)


def _find_blockers(
    target: Connection, schema: str, partitions: Sequence[Partition]
) -> dict[str, list[Blocker]]:
    """Return who needs which partition, by its name."""
    parts = [
        {
            "name": each.name,
            "state": each.state,
            "from_lsn": lsn.show(each.block.from_lsn),
            "to_lsn": lsn.show(each.block.to_lsn),
            "drop_sql": _drop_sql(each, schema),
        }
        for each in partitions
    ]
    found: dict[str, list[Blocker]] = {each.name: [] for each in partitions}
    values = {"partitions": Json(parts), "schema": quoted(schema)}
    for name, reason, remedy in target.ask(_BLOCKERS, values, schema):
        found[name].append(Blocker(reason, remedy))
    return found


def _drop_sql(partition: Partition, schema: str) -> str:
    table, log = (Table(schema, name).quoted for name in (partition.name, "change_log"))
    drop = f"drop table {table};"
    if partition.is_pruned:
        return drop
    attach = attach_sql(table, log, partition.block)
    return f"{attach} -- or, only where its rows are of no use: {drop}"


def _too_young(partition: Partition, keep: float) -> list[Blocker]:
    if partition.age is None or partition.age >= keep:
        return []
    said = f"its newest row is {duration(partition.age)} old, --keep is {duration(keep)}"
    return [Blocker(said)]


def _apply(
    dropper: _Dropper, planned: Iterable[tuple[Partition, list[Blocker]]]
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
            blockers = dropper.drop(partition)
            yield Outcome(partition, "kept" if blockers else "dropped", blockers)
        except Interrupted as error:
            blockers = [Blocker(f"another session still uses the log ({error})", _WHEN_IT_ENDS)]
            yield Outcome(partition, "left", blockers)
        if blockers:
            first_blocker = Blocker(f"{partition.name} goes first")


class _Dropper:
    """Drops one partition after another."""

    def __init__(self, target: Connection, schema: str, keep: float, timeout: int) -> None:
        self._target = target
        self._schema = schema
        self._keep = keep
        self._timeout = timeout

    def drop(self, partition: Partition) -> list[Blocker]:
        """Drop the partition, or return its blockers. Raises Interrupted."""
        if partition.state == "attached":
            if found := self._retry(lambda: self._move_start(partition)):
                return found
            failpoints.reach("start-moved")
            self._retry(lambda: self._check_direct_readers(partition))
            self._run(_DETACH + "concurrently", partition)
            partition = replace(partition, state="detached", is_pruned=True)
        elif partition.state == "pending":
            self._retry(lambda: self._finish_detach(partition))
        failpoints.reach("partition-detached")
        return self._retry(lambda: self._drop(partition))

    def _retry(self, step: Callable[[], Result]) -> Result:
        """Run the step, again while other sessions block it, and return its result."""
        deadline = time.monotonic() + self._timeout
        while True:
            try:
                return step()
            except Interrupted:
                if time.monotonic() > deadline:
                    raise
            # Between two tries nothing is locked, so that sessions that wait for us can go on.
            time.sleep(_PAUSE_SECONDS)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """Run what is within in one transaction, with short waits for locks."""
        with self._target.transaction():
            self._target.ask(f"set local lock_timeout = '{min(_TRY_SECONDS, self._timeout)}s'")
            yield

    def _move_start(self, partition: Partition) -> list[Blocker]:
        with self._transaction():
            self._run("lock table {0}.{1} in share update exclusive mode", partition)
            found = self._needed(partition) + _too_young(partition, self._keep)
            if not found:
                self._target.ask(
                    "comment on table {}.{} is %s", (MARK,), self._schema, partition.name
                )
                end = {"end": lsn.show(partition.block.to_lsn)}
                self._target.ask(_MOVE_START, end, self._schema)
        return found

    def _check_direct_readers(self, partition: Partition) -> None:
        """Raise Interrupted while a session reads the partition by its own name.

        The detach would wait for it with a lock that keeps the loader from attaching another one.
        """
        names = [Table(self._schema, name).quoted for name in (partition.name, "change_log")]
        ((pids,),) = self._target.ask(_DIRECT_READERS, names)
        if pids:
            raise Interrupted(f"process {pids} reads {partition.name} by its own name")

    def _finish_detach(self, partition: Partition) -> None:
        with self._transaction():
            self._run(_DETACH + "finalize", partition)

    def _drop(self, partition: Partition) -> list[Blocker]:
        with self._transaction():
            self._run("lock table {0}.{1} in access exclusive mode", partition)
            found = self._needed(partition)
            if not found:
                self._run("drop table {0}.{1}", partition)
        return found

    def _needed(self, partition: Partition) -> list[Blocker]:
        """Return who needs the partition, and keep the slots' rows from changing."""
        # The first reading takes the locks of all tables. So the second one, after the rows that a
        # loader writes are locked, waits for nobody.
        _find_blockers(self._target, self._schema, [partition])
        self._target.ask(_LOCK_SLOTS, None, self._schema)
        return _find_blockers(self._target, self._schema, [partition])[partition.name]

    def _run(self, statement: str, partition: Partition) -> None:
        self._target.ask(statement, None, self._schema, partition.name)
