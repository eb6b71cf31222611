"""What a kept answer costs those who write one group, or many, on two small servers.

The source has 0.8 of a core, loader and own target 0.45, by control groups, so it needs root; the
clients have the rest. 16 clients insert a row a transaction, each on disk before the next, into one
group, where writers of a trigger or a view wait for each other, and into 100. Every round takes
each condition once; ratios are to `nothing` of the same round. At the end of each measurement what
is kept equals its query.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any

from benchmarks import report
from benchmarks.loader_process import running
from benchmarks.measure import say
from benchmarks.pgbench import write
from benchmarks.workload import LOADER, ask
from testkit.databases import Database, empty_database
from testkit.queries import QuerySystem
from testkit.servers import Cluster
from testkit.waiting import wait_until

CLIENTS = 16
SOURCE_CORES, LOADER_CORES = 0.8, 0.45
GROUPS = (1, 100)
_PATIENCE = 600.0

_QUERY = "select kind, count(*) as n, sum(amount) as amount from lab.sale group by kind"
_MAKE = """
create schema lab;
create table lab.sale (
    id bigint generated always as identity primary key,
    kind integer not null,
    amount integer not null
);
alter table lab.sale replica identity full
"""
_SCRIPT = "\\set kind random(1, :groups)\ninsert into lab.sale (kind, amount) values (:kind, 7);\n"
_TRIGGER = """
create table lab.kept (kind integer primary key, n bigint, amount bigint) with (fillfactor = 30);
create function lab.keep() returns trigger language plpgsql as $$
begin
    insert into lab.kept as kept {}
    on conflict (kind)
    do update set n = kept.n + excluded.n, amount = kept.amount + excluded.amount;
    return null;
end $$;
create trigger keep after insert on lab.sale {} execute function lab.keep()
"""
_VIEW = f"create materialized view lab.kept as {_QUERY}; create unique index on lab.kept (kind)"
_REFRESH = "refresh materialized view concurrently lab.kept"
BY_SQL = {
    "trigger per statement": _TRIGGER.format(
        "select kind, count(*), sum(amount) from come group by kind order by kind",
        "referencing new table as come for each statement",
    ),
    "trigger per row": _TRIGGER.format("values (new.kind, 1, new.amount)", "for each row"),
    "refresh concurrently each second": _VIEW,
    "pg_ivm": f"create extension pg_ivm; select pgivm.create_immv('lab.kept', $${_QUERY}$$)",
}
"""By condition what keeps the answer in the source's own database."""
NOTHING, OWN_TARGET, AT_SOURCE = "nothing", "waltally, own target", "waltally, at the source"

_PARENT = Path("/sys/fs/cgroup/cpu")
_PERIOD = 20_000


@contextmanager
def capped(name: str, cores: float) -> Iterator[Path]:
    """Give what is started inside the block, for good, so much of a core. Raises RuntimeError.

    Yields the folder of the control group, which stays.
    """
    is_new = not _PARENT.exists()
    parent = _PARENT.parent if is_new else _PARENT
    group, quota = parent / f"waltally_{name}", f"{cores * _PERIOD:.0f}"
    try:
        if is_new:
            (parent / "cgroup.subtree_control").write_text("+cpu")
        group.mkdir(exist_ok=True)
        if is_new:
            (group / "cpu.max").write_text(f"{quota} {_PERIOD}")
        else:
            (group / "cpu.cfs_period_us").write_text(f"{_PERIOD}")
            (group / "cpu.cfs_quota_us").write_text(quota)
        # 0 is this process; what it starts stays in the group when it leaves.
        (group / "cgroup.procs").write_text("0")
    except OSError as error:
        raise RuntimeError(f"no CPU quota without root and a control group: {error}") from error
    try:
        yield group
    finally:
        (parent / "cgroup.procs").write_text("0")


@contextmanager
def refreshed(dsn: str) -> Iterator[None]:
    """Refresh the view a second after the last time, and once more in the end."""
    stop = Event()

    def refresh() -> None:
        while not stop.wait(1):
            ask(dsn, _REFRESH)

    thread = Thread(target=refresh)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        ask(dsn, _REFRESH)


@contextmanager
def followed(database: Database, target: Database | None) -> Iterator[None]:
    """Keep the query by waltally, in the target or at the source, until it has caught up."""
    with tempfile.TemporaryDirectory(prefix="waltally-capped-") as home, ExitStack() as stack:
        system = QuerySystem(database, Path(home), target)
        system.keep({"kept": (_QUERY.replace("lab.sale", "{sale}"), {})})
        system.target.take_baseline()
        with capped("loader", LOADER_CORES):
            command = [str(LOADER), "run", "--build"]
            loader = stack.enter_context(running(command, system.environment()))

        def follows() -> bool:
            loader.check()
            kept = "select kind, n, amount from analytics.kept"
            return rows(system.target, kept) == rows(database, _QUERY)

        yield
        wait_until(follows, "waltally should have every row", _PATIENCE, 0.1)
        loader.stop()
        system.must("teardown", "--drop-data", "--yes")


def rows(database: Database, query: str) -> list[Any]:
    """Return the rows that a query gives, in one order."""
    return sorted(database.execute(query))


def per_second(
    source: Cluster, target: Cluster, condition: str, groups: int, seconds: int
) -> float:
    """Return how many rows a second the clients write. Raises RuntimeError."""
    with ExitStack() as stack:
        database = stack.enter_context(empty_database(source))
        dsn = source.dsn(database.name)
        ask(dsn, _MAKE)
        if condition in (OWN_TARGET, AT_SOURCE):
            own = stack.enter_context(empty_database(target)) if condition == OWN_TARGET else None
            stack.enter_context(followed(database, own))
        elif condition in BY_SQL:
            ask(dsn, BY_SQL[condition])
        how: dict[str, Any] = {"clients": CLIENTS, "groups": groups}
        write(dsn, _SCRIPT, seed=1, writes=50 * CLIENTS, **how)
        with refreshed(dsn) if BY_SQL.get(condition) == _VIEW else ExitStack():
            done = write(dsn, _SCRIPT, seed=2, seconds=seconds, **how)
        if condition in BY_SQL and rows(database, "table lab.kept") != rows(database, _QUERY):
            raise RuntimeError(f"{condition} does not keep what its query gives")
    return done.per_second


def measure(rounds: int, seconds: int) -> Iterator[report.Table]:
    """Measure each condition once a round, with one group and with many; return the ratios."""
    with ExitStack() as servers:
        with capped("source", SOURCE_CORES) as group:
            servers.callback(group.rmdir)
            source = servers.enter_context(Cluster({"autovacuum": "off"}))
        with capped("loader", LOADER_CORES) as group:
            servers.callback(group.rmdir)
            target = servers.enter_context(Cluster())
        has_ivm = ask(source.dsn(), "select from pg_available_extensions where name = 'pg_ivm'")
        conditions = [NOTHING, OWN_TARGET, AT_SOURCE, *BY_SQL][: None if has_ivm else -1]
        taken: dict[tuple[str, int], list[float]] = {}
        for number in range(rounds):
            for condition in conditions:
                for groups in GROUPS:
                    found = per_second(source, target, condition, groups, seconds)
                    taken.setdefault((condition, groups), []).append(found)
                    say(f"round {number + 1}, {condition}, groups {groups}: {found:,.0f} writes/s")
    yield report.Table("capped", [row(condition, taken) for condition in conditions[1:]])


def row(condition: str, taken: dict[tuple[str, int], list[float]]) -> report.Row:
    """Return a condition's row."""

    def ratio(groups: int) -> str:
        pairs = zip(taken[condition, groups], taken[NOTHING, groups], strict=True)
        return report.spread([one / nothing for one, nothing in pairs])

    return {
        "what keeps the answer": condition,
        "writes left, one group": ratio(GROUPS[0]),
        "writes left, 100 groups": ratio(GROUPS[1]),
    }
