"""What a slot and the loader cost an application that writes, beside nothing and beside triggers.

python -m benchmarks.overhead --rows 50000 --rounds 3

One half of the cores is for the source and pgbench's clients, the other for loader and target, as
if they were two machines. Each measurement has a fresh copy of the database, with all of it in the
server's memory. It writes twice: a fixed number of writes that do not wait for the disk, of which
CPU and WAL are taken, then as fast as it goes for some seconds, each commit on disk before the next
write. Every round takes each condition once and begins with another one each time; ratios are to
`nothing` of the same round. The WAL sender's CPU belongs to the source. The later work of vacuum is
not measured. Checked in each measurement: the change log has as many changes as were written, the
triggers' counts equal a recount. Then `capped` measures on two small servers.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from statistics import median
from typing import Any, Literal, NamedTuple

import psutil

from benchmarks import capped, decoding, report, workload
from benchmarks.loader_process import LoaderProcess, running
from benchmarks.measure import cpu_seconds, run, say, server_cpu
from benchmarks.pgbench import Written, write
from benchmarks.triggers import check_triggers, make_triggers
from testkit import source
from testkit.servers import Cluster
from testkit.waiting import wait_until

GOALS = {"throughput lost to the loader, at most": 0.05, "triggers lose at least": 0.15}

SCRIPT = """\
\\set place random(1, :rows)
\\set chance random(1, 100)
\\set status random(1, 8)
\\set template random(1, :templates)
\\if :chance > 5
update notifications
set updated_at = now(), notification_status = (
    array['created', 'sending', 'pending', 'sent', 'delivered', 'temporary-failure',
        'permanent-failure', 'technical-failure']
)[:status]
where id = md5('1 live ' || :place)::uuid;
\\else
insert into notifications (
    "to", service_id, template_id, notification_type, notification_status, personalisation
)
select 'someone@example.com', service_id, id, template_type, 'created', repeat('x', 310)
from templates where id = md5('1 template ' || :template)::uuid;
\\endif
"""
"""One write per transaction: 95 of 100 give a row that `testkit.source.fill` made another status
(one in eight gets the one it has), the rest insert a row."""

_CORES = sorted(os.sched_getaffinity(0))
SOURCE_CORES = _CORES[: len(_CORES) // 2] or _CORES
LOADER_CORES = _CORES[len(_CORES) // 2 :]

_SLOT, _ORIGIN, _COPY = "overhead", "origin", "application"
_SERVICES, _TEMPLATES = 10, 150
_PATIENCE = 60.0
# Autovacuum would run during some measurements and not during others.
_SERVER = {"autovacuum": "off", "shared_buffers": "256MB", "max_wal_size": "4GB"}
# Free space on each page, as in a vacuumed table; without it no update could stay on its page.
_SETTLE = """
alter table notifications set (fillfactor = 80);
update notifications set personalisation = repeat('x', 310);
create extension pg_prewarm;
create extension pg_walinspect
"""
_WARM = """
select pg_prewarm(oid) from pg_class
where relnamespace = 'public'::regnamespace and relkind in ('r', 'i')
"""
_WAL = """
select sum(record_size)::float8
from pg_get_wal_stats(%(begin)s, pg_current_wal_flush_lsn())
"""
_SENDER = "select active_pid from pg_replication_slots where slot_name = %(slot)s"

Identity = Literal["default", "narrow", "covering", "full"]


class Condition(NamedTuple):
    """What runs beside the clients."""

    name: str
    identity: Identity = "default"
    is_followed: bool = False
    has_triggers: bool = False
    wal_level: str = "logical"
    is_beside: bool = False
    """Whether the change log is in the source's own database, as by default."""


NOTHING = Condition("nothing")
CONDITIONS = (
    NOTHING,
    Condition("nothing, wal_level = replica", wal_level="replica"),
    Condition("covering index, no slot", "covering"),
    Condition("loader, identity default", "default", is_followed=True),
    Condition("loader, identity (id, status)", "narrow", is_followed=True),
    Condition("loader, covering index", "covering", is_followed=True),
    Condition("loader, identity full", "full", is_followed=True),
    Condition("loader, identity full, log at the source", "full", is_followed=True, is_beside=True),
    Condition("triggers per statement", has_triggers=True),
)

Sample = dict[str, float]
"""By the names of the table's columns; CPU in microseconds per write, WAL in bytes per write."""


@contextmanager
def pinned_to(cores: Sequence[int]) -> Iterator[None]:
    """Keep this thread, and what it starts inside the block for good, on these cores."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def make_origin(cluster: Cluster, rows: int) -> None:
    """Make the database that each measurement copies."""
    dsn = cluster.dsn(_ORIGIN)
    workload.ask(cluster.dsn(), f"create database {_ORIGIN}")
    source.create(dsn)
    source.fill(dsn, _SERVICES, _TEMPLATES, live_rows=rows)
    for statement in (_SETTLE, "vacuum (full, analyze) notifications", "vacuum (freeze)"):
        workload.ask(dsn, statement)


@contextmanager
def copy(cluster: Cluster, wal_level: str) -> Iterator[str]:
    """Lend a fresh copy of the database, by its connection string, under that level of WAL."""
    usual = cluster.settings["wal_level"]
    set_wal_level(cluster, wal_level)
    workload.ask(cluster.dsn(), f"create database {_COPY} template {_ORIGIN}")
    yield cluster.dsn(_COPY)
    workload.ask(cluster.dsn(), f"drop database {_COPY} with (force)")
    set_wal_level(cluster, usual)


def set_wal_level(cluster: Cluster, level: str) -> None:
    """Start the server again where its level is another one."""
    if level != cluster.settings["wal_level"]:
        cluster.stop()
        cluster.configure({"wal_level": level})
        cluster.start()


def set_identity(dsn: str, identity: Identity) -> None:
    """Give both tables the identity, with the index that it needs."""
    if identity in ("full", "covering"):
        source.set_identity(dsn, "full" if identity == "full" else "covering")
        return
    for table in source.TABLES:
        index = f"{table}_identity"
        workload.ask(
            dsn,
            f"alter table {table} replica identity default"
            if identity == "default"
            else f"alter table {table} alter notification_status set not null;"
            f"create unique index {index} on {table} (id, notification_status);"
            f"alter table {table} replica identity using index {index}",
        )


class Followed:
    """The loader beside the clients: what it has stored, and what it costs where."""

    def __init__(self, dsn: str, target: Cluster | None, loader: LoaderProcess) -> None:
        """Wait until it streams from the database at `dsn`, into it where there is no target."""
        self._dsn, self._target, self._loader = dsn, target, loader
        self._wait_until(lambda: self._sender() is not None, "follow the slot")
        self._process = psutil.Process(self._sender())

    def cpu(self) -> tuple[float, float]:
        """Return the CPU seconds so far of the WAL sender, and of loader and target."""
        target = server_cpu(self._target) if self._target else 0.0
        return cpu_seconds(self._process), self._loader.cpu_seconds + target

    def wait_for(self, writes: int) -> None:
        """Wait until so many changes are staged. Raises RuntimeError where there are more."""
        self._wait_until(lambda: self._stored() >= writes, f"store {writes} changes")
        if (stored := self._stored()) != writes:
            raise RuntimeError(f"{stored} changes are staged after {writes} writes")

    def _stored(self) -> int:
        log = self._target.dsn() if self._target else self._dsn
        return int(workload.ask(log, "select count(*) from cdc.change_log")[0][0])

    def _sender(self) -> int | None:
        ((pid,),) = workload.ask(self._dsn, _SENDER, {"slot": _SLOT})
        return None if pid is None else int(pid)

    def _wait_until(self, is_done: Callable[[], bool], what: str) -> None:
        def is_done_by_a_loader() -> bool:
            self._loader.check()
            return is_done()

        wait_until(is_done_by_a_loader, f"the loader should {what}", _PATIENCE, 0.1)


@contextmanager
def followed(cluster: Cluster, target: Cluster | None, identity: Identity) -> Iterator[Followed]:
    """Follow the copy into `target`, or into itself, by a new slot with the identity.

    `loader setup` refuses an identity that does not carry the dimensions, so the slot is made under
    identity full and the identity changed before the loader starts.
    """
    loader, dsn = str(workload.LOADER), cluster.dsn(_COPY)
    log, database = (target, "postgres") if target else (cluster, _COPY)
    environment = workload.environment(cluster, log, _SLOT, database=database)
    environment["LOADER_SOURCE_DSN"] = dsn
    set_identity(dsn, "full")
    workload.install(environment)
    set_identity(dsn, identity)
    with ExitStack() as stack:
        with pinned_to(LOADER_CORES):
            process = stack.enter_context(running([loader, "run"], environment))
        yield Followed(dsn, target, process)
    run([loader, "teardown", "--drop-data", "--yes"], environment, {})


class Sampler(NamedTuple):
    """The servers, and how long the clients write."""

    cluster: Cluster
    target: Cluster
    rows: int
    seconds: int
    writes: int

    def sample(self, condition: Condition, seed: int) -> Sample:
        """Measure one condition once. Raises RuntimeError where a check fails."""
        with ExitStack() as stack:
            dsn = stack.enter_context(copy(self.cluster, condition.wal_level))
            loader = None
            if condition.is_followed:
                target = None if condition.is_beside else self.target
                loader = stack.enter_context(followed(self.cluster, target, condition.identity))
            else:
                set_identity(dsn, condition.identity)
            if condition.has_triggers:
                make_triggers(dsn)
            workload.ask(dsn, _WARM)
            begin, before = self._checkpoint(dsn), self._cpu(loader)
            counted = self._write(dsn, seed, writes=self.writes, awaits_commit=False)
            if loader:
                loader.wait_for(counted.writes)
            decoding.wal_end(self.cluster)
            source_cpu, sender, elsewhere = (
                (now - was) * 1e6 / counted.writes
                for now, was in zip(self._cpu(loader), before, strict=True)
            )
            ((wal,),) = workload.ask(dsn, _WAL, {"begin": begin})
            self._checkpoint(dsn)
            fastest = self._write(dsn, seed + 1, seconds=self.seconds)
            if loader:
                loader.wait_for(counted.writes + fastest.writes)
            if condition.has_triggers:
                check_triggers(dsn)
        return {
            "writes/s": fastest.per_second,
            "source CPU, µs": source_cpu,
            "of it WAL sender": sender,
            "loader, target CPU, µs": elsewhere,
            "WAL, bytes": wal / counted.writes,
        }

    def _checkpoint(self, dsn: str) -> str:
        """Checkpoint, so that full pages are due alike; return the end of the WAL on disk."""
        workload.ask(dsn, "checkpoint")
        decoding.wal_end(self.cluster)
        return str(workload.ask(dsn, "select pg_current_wal_flush_lsn()")[0][0])

    def _cpu(self, loader: Followed | None) -> tuple[float, float, float]:
        """Return the CPU seconds so far of the source, of its WAL sender, and elsewhere."""
        return (server_cpu(self.cluster), *(loader.cpu() if loader else (0.0, 0.0)))

    def _write(self, dsn: str, seed: int, **how: Any) -> Written:
        return write(dsn, SCRIPT, seed=seed, rows=self.rows, templates=_TEMPLATES, **how)


def measure(rows: int, rounds: int, seconds: int, writes: int) -> Iterator[report.Table]:
    """Measure each condition once a round; return medians, and ratios with their spread."""
    samples: dict[str, list[Sample]] = {condition.name: [] for condition in CONDITIONS}
    with ExitStack() as servers:
        with pinned_to(LOADER_CORES):
            target = servers.enter_context(Cluster())
        servers.enter_context(pinned_to(SOURCE_CORES))
        cluster = servers.enter_context(Cluster(_SERVER))
        make_origin(cluster, rows)
        sampler = Sampler(cluster, target, rows, seconds, writes)
        for number in range(rounds):
            turn = number * len(CONDITIONS) // rounds
            for condition in (*CONDITIONS[turn:], *CONDITIONS[:turn]):
                taken = sampler.sample(condition, 10 * (number + 1))
                samples[condition.name].append(taken)
                say(f"round {number + 1}, {condition.name}: {taken['writes/s']:,.0f} writes/s")
    yield report.Table("overhead", [row(name, samples) for name in samples], {"goals": GOALS})
    yield from capped.measure(rounds, 5 * seconds)


def row(name: str, samples: dict[str, list[Sample]]) -> report.Row:
    """Return a condition's row."""

    def ratio(column: str) -> str:
        pairs = zip(samples[name], samples[NOTHING.name], strict=True)
        return report.spread([one[column] / nothing[column] for one, nothing in pairs])

    medians = {key: median(one[key] for one in samples[name]) for key in samples[name][0]}
    return {
        "beside the writers": name,
        "writes/s": medians.pop("writes/s"),
        "ratio": ratio("writes/s"),
        "CPU ratio": ratio("source CPU, µs"),
        **medians,
    }


if __name__ == "__main__":
    report.main(
        __doc__,
        measure,
        rows=(50_000, "notifications"),
        rounds=(3, "measurements of each condition"),
        seconds=(2, "length of each timed run"),
        writes=(15_000, "writes of the counted run"),
    )
