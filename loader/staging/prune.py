"""Drops partitions of the change log that nobody needs, each in one transaction.

The transaction that drops a partition also moves `start_lsn` beyond it. So a crash leaves nothing
half done, and nobody relies on rows that are gone. To drop a partition, the log itself is locked.
That waits for every session that uses the log, and other sessions wait behind it. So one try waits
for a second at most, and between two tries everybody goes on.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from importlib import resources
from typing import Literal

from psycopg2.extras import Json

from loader.staging import migrate
from loader.staging.partitions import PARTITION_NAME, Block
from waltally import failpoints, locks, lsn
from waltally.database import Target, connect_target
from waltally.errors import Interrupted, NotSetUp
from waltally.settings import Settings
from waltally.tables import quoted
from waltally.units import duration

# Those that are attached. Tables with other names or bounds are not ours.
_PARTITIONS = """
select
    c.relname,
    pg_total_relation_size(c.oid),
    pg_get_expr(c.relpartbound, c.oid)
from pg_inherits as i
inner join pg_class as c on c.oid = i.inhrelid
where i.inhparent = to_regclass(%s) and not i.inhdetachpending and c.relname ~ %s
"""

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

_KEEPS_CHANGES = (
    "select relation from {}.dependent_model where declaration ->> 'kind' = 'changes' order by 1"
)

_BLOCKERS = (resources.files("loader.staging") / "blockers.sql").read_text()

_LOCK_SLOTS = "select from {0}.slot_position order by slot_name for no key update nowait"

_MOVE_START = """
update {0}.slot_position
set start_lsn = %(end)s
where start_lsn < %(end)s
"""

# A rebuild from one of these needs the log before its start. The baseline's own row says whose
# the model is.
_FORGET_GROUPS = """
delete from {0}.baseline_group as counted
using {0}.baseline, {0}.slot_position as log
where
    baseline.slot_name = counted.slot_name
    and baseline.model_name = counted.model_name
    and log.slot_name = counted.slot_name
    and baseline.snapshot_lsn < log.start_lsn
"""

_TRY_SECONDS = 1
"""How long a try waits for the log's lock, and others behind it."""
_PATIENCE_SECONDS = 2
"""How long it waits for the partition's own: an autovacuum gives way within a second."""
_PAUSE_SECONDS = 0.5

_WHEN_IT_ENDS = (
    "loader prune again once that session has ended; pg_stat_activity shows open transactions"
)

Status = Literal["would drop", "dropped", "kept", "left"]


@dataclass(frozen=True)
class Partition:
    """A partition of the change log, of `size` bytes with its indexes.

    `age` is its newest row's in seconds, None without rows.
    """

    block: Block
    size: int
    age: float | None

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

    `timeout` is in seconds, for each wait: for another prune, and for sessions that use the log.
    With `dry_run` nothing changes. Raises NotSetUp where there is no log, Interrupted where another
    prune goes on.
    """
    schema = settings.schema
    with closing(connect_target(settings)) as target:
        if migrate.version(target) < migrate.migrations()[-1][0]:
            raise NotSetUp(
                f"The staging schema {schema} is not there or not up to date", "run `loader setup`"
            )
        target.ask("select set_config('lock_timeout', %s, false)", (f"{timeout}s",))
        if not dry_run and not locks.acquire(target, "prune", schema, seconds=timeout):
            raise Interrupted(
                f"Another prune of schema {schema} is running",
                "let it end; pg_locks shows it as advisory",
            )
        if not target.ask_staging("select 1 from {}.slot_position limit 1"):
            raise NotSetUp(f"No slot is set up in schema {schema}", "run `loader setup`")
        if not dry_run:
            # Each in a transaction of its own: who applies the model waits for it.
            for model in target.ask_staging(_KEEPS_CHANGES):
                target.ask_staging("select {}.prune_changes(%s)", model)
        pruner = _Pruner(target, keep, timeout)
        return list(pruner.plan() if dry_run else pruner.prune())


@dataclass(frozen=True)
class _Pruner:
    """Judges the partitions of one log, and drops one after another."""

    target: Target
    keep: float
    timeout: int

    def plan(self) -> Iterator[Outcome]:
        """Yield of each partition, the oldest first, whether it may be dropped.

        A partition is dropped only when all older ones are, so that the log has no gap.
        """
        partitions = sorted(self._read_partitions(), key=lambda partition: partition.block)
        blockers_by_name = self._find_blockers(partitions)
        is_held = False
        for partition in partitions:
            blockers = blockers_by_name[partition.name]
            if partition is partitions[-1]:
                what = " and empty" if partition.age is None else ""
                blockers = [Blocker(f"it is the newest partition{what}: the log goes on in it")]
            elif is_held and not blockers:
                blockers = [Blocker("an older partition is kept")]
            is_held = is_held or bool(blockers)
            yield Outcome(partition, "kept" if blockers else "would drop", blockers)

    def prune(self) -> Iterator[Outcome]:
        """Yield what became of each partition."""
        first_blocker: Blocker | None = None
        for outcome in self.plan():
            partition = outcome.partition
            if outcome.status == "kept":
                yield outcome
                continue
            if first_blocker is not None:
                yield Outcome(partition, "left", [first_blocker])
                continue
            try:
                # The blockers are read again just before: they may have changed since the plan.
                blockers = self._drop(partition)
                yield Outcome(partition, "kept" if blockers else "dropped", blockers)
            except Interrupted as error:
                blockers = [Blocker(f"another session still uses the log ({error})", _WHEN_IT_ENDS)]
                yield Outcome(partition, "left", blockers)
            if blockers:
                first_blocker = Blocker(f"{partition.name} goes first")
        self.target.ask_staging(_FORGET_GROUPS)

    def _read_partitions(self) -> Iterator[Partition]:
        places = (self.target.table("change_log"), PARTITION_NAME)
        for name, size, bounds in self.target.ask(_PARTITIONS, places):
            block = Block.named(name)
            if bounds.lower() != f"for values {block.bounds}".lower():
                continue
            ((age,),) = self.target.ask_staging(_AGE, None, name)
            yield Partition(block, size, age)

    def _find_blockers(self, partitions: Sequence[Partition]) -> dict[str, list[Blocker]]:
        """Return what keeps which partition, by its name."""
        parts = [
            {
                "name": partition.name,
                "from_lsn": lsn.show(partition.block.from_lsn),
                "to_lsn": lsn.show(partition.block.to_lsn),
            }
            for partition in partitions
        ]
        blockers: dict[str, list[Blocker]] = {partition.name: [] for partition in partitions}
        values = {"partitions": Json(parts), "schema": quoted(self.target.schema)}
        for name, reason, remedy in self.target.ask_staging(_BLOCKERS, values):
            blockers[name].append(Blocker(reason, remedy))
        for partition in partitions:
            if partition.age is not None and partition.age < self.keep:
                age, keep = duration(partition.age), duration(self.keep)
                reason = f"its newest row is {age} old, --keep is {keep}"
                blockers[partition.name].append(Blocker(reason))
        return blockers

    def _drop(self, partition: Partition) -> list[Blocker]:
        """Drop the partition, or return its blockers. Raises Interrupted."""
        deadline = time.monotonic() + self.timeout
        while True:
            try:
                with self.target.transaction():
                    return self._try(partition)
            except Interrupted:
                if time.monotonic() > deadline:
                    raise
            # Nothing is locked meanwhile, so that sessions that waited for us go on.
            time.sleep(_PAUSE_SECONDS)

    def _try(self, partition: Partition) -> list[Blocker]:
        self._lock("{0}.{1} in share update exclusive mode", _PATIENCE_SECONDS, partition)
        # The first reading takes the locks of all tables that it needs. So the second one, while
        # everybody waits for us, waits for nobody.
        if blockers := self._find_blockers([partition])[partition.name]:
            return blockers
        self._lock("only {0}.change_log in access exclusive mode", _TRY_SECONDS, partition)
        self.target.ask_staging(_LOCK_SLOTS)
        if blockers := self._find_blockers([partition])[partition.name]:
            return blockers
        end = {"end": lsn.show(partition.block.to_lsn)}
        self.target.ask_staging(_MOVE_START, end)
        failpoints.reach("start-moved")
        self.target.ask_staging("drop table {}.{}", None, partition.name)
        return []

    def _lock(self, what: str, seconds: int, partition: Partition) -> None:
        """Lock a table until the transaction ends. Raises Interrupted."""
        self.target.ask(f"set local lock_timeout = '{min(seconds, self.timeout)}s'")
        self.target.ask_staging(f"lock table {what}", None, partition.name)
