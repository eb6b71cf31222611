"""What counting the existing rows costs: the seed, the audit, psql and a plain COPY.

python -m benchmarks.seed --rows 3000000 --groups 10000 1600000 --rounds 3
python -m benchmarks.seed --rows 3000000 --groups 10000 --tasks 1 2 --rounds 3   # one task, two
python -m benchmarks.seed --rows 100000 --groups 1000 --rounds 3   # how fast a small one is

Two tables of --rows rows in all, spread evenly over so many groups. Each way counts them, one after
the other in each round. The source's CPU is compared with that of a plain COPY of the same columns
in the same round, and an audit's time with that of the seed before it. The counts go to another
server, so that the source only reads. Every baseline is compared with the server's own count.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from benchmarks import report, workload
from benchmarks.loader_process import running_loader
from benchmarks.measure import ROOT, PeakMemory, run, say, server_cpu
from testkit.servers import BIN, Cluster

SLOT = "waltally"
GOALS = {
    "source's CPU, x COPY": "1.15 with few groups, 1.3 with many",
    "time, x seed": "1.2 of an audit",
    "of 100,000 rows": "8 s and 12 s of Spark's CPU",
}

_SERVER = {"autovacuum": "off", "max_wal_size": "'64GB'", "checkpoint_timeout": "'1h'"}
_MODEL = """\
{{ config(materialized='waltally') }}

select customer_id, state, count(*) as order_count, sum(cents) as cents
from (
    select customer_id, state, cents from {{ source('app', 'orders') }}
    union all
    select customer_id, state, cents from {{ source('app', 'old_orders') }}
) as orders
group by 1, 2
"""
_TABLES = """
create table orders (
    id bigint not null, customer_id integer not null, cents bigint not null, state text not null,
    placed_at timestamptz not null
);
create table old_orders (like orders including all);
alter table orders replica identity full;
alter table old_orders replica identity full;
create table queue (id integer primary key, tries bigint not null);
insert into queue select n, 0 from generate_series(1, 1000) as n;
"""
_FILL = """
insert into {table}
select
    n, n * 1000003 %% %(groups)s / 5, n %% 9973,
    (array['new', 'paid', 'sent', 'late', 'back'])[1 + n %% 5],
    timestamptz '2026-01-01' + n * interval '1 second'
from generate_series(%(first)s::bigint, %(last)s) as n
"""
_CHECKSUM = """
select count(*), sum(n)::bigint, sum(cents),
    sum(hashtextextended(concat_ws('|', customer_id, state, n, cents), 0)::numeric)
from ({groups}) as groups
"""
RECOUNT = """
select customer_id, state, count(*) as n, sum(cents) as cents
from (table orders union all table old_orders) as rows
group by customer_id, state
"""
_BASELINE = """
select
    dimensions[1] as customer_id, dimensions[2] as state,
    sum(measures[1])::bigint as n, sum(measures[2]) as cents
from cdc.baseline_group group by 1, 2
"""


class Outcome(NamedTuple):
    """What one run took."""

    seconds: float
    source_cpu: float
    job: float | None = None
    """Seconds of the job itself, without Spark's start and end."""
    memory: float | None = None
    """Peak in bytes of the JVM, the Python workers and the driver's Python."""
    spark_cpu: float | None = None
    """CPU seconds of the same processes."""


class Servers(NamedTuple):
    """The servers, and how the commands find them."""

    source: Cluster
    warehouse: Cluster
    settings: dict[str, str]


def start(stack: ExitStack, server: dict[str, str], rows: int, groups: int) -> Servers:
    """Start source and warehouse, fill the tables, register the model; nine rows of ten are old."""
    project = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    source, warehouse = (stack.enter_context(Cluster(server)) for _ in range(2))
    workload.declare(project, {"models/ft_orders.sql": _MODEL})
    begun = time.monotonic()
    workload.ask(source.dsn(), _TABLES)
    live = rows // 10
    for table, first, last in (("orders", 1, live), ("old_orders", live + 1, rows)):
        values = {"groups": groups, "first": first, "last": last}
        workload.ask(source.dsn(), _FILL.format(table=table), values)
    for statement in ("vacuum analyze", "checkpoint"):
        workload.ask(source.dsn(), statement)
    say(f"{rows:,} rows in about {groups:,} groups, filled in {time.monotonic() - begun:.0f} s")
    workload.set_up(source, warehouse, SLOT, project)
    return Servers(source, warehouse, workload.environment(source, warehouse, SLOT, project))


def checksum(cluster: Cluster, groups: str) -> tuple[Any, ...]:
    """Return how many groups a query gives, how many rows they are of, and sums over them."""
    (found,) = workload.ask(cluster.dsn(), _CHECKSUM.format(groups=groups))
    return tuple(found)


def seed(servers: Servers, *master: str) -> Outcome:
    """Run the seed."""
    return _job(servers, "seed", *master)


def _by(master: str) -> Callable[[Servers], Outcome]:
    return lambda servers: seed(servers, "--master", master)


def audit(servers: Servers) -> Outcome:
    """Compare the model with the tables. Raises RuntimeError where they differ."""
    with running_loader(servers.source, servers.warehouse, SLOT):
        return _job(servers, "audit")


def _job(servers: Servers, name: str, *master: str) -> Outcome:
    script = ROOT / "spark" / f"{name}.py"
    command: list[str | Path] = [workload.BIN / "spark-submit", *master, script, "--json"]
    before = server_cpu(servers.source)
    with PeakMemory() as memory:
        cost = run(command, servers.settings, {})
    spent = server_cpu(servers.source) - before
    said = json.loads(cost.output.splitlines()[-1])
    return Outcome(cost.seconds, spent, said["seconds"], memory.peak_bytes, cost.program)


def psql(servers: Servers, *statements: str) -> Outcome:
    """Run statements at the source, with their output to nowhere."""
    words = [word for statement in statements for word in ("-c", statement)]
    command: list[str | Path] = [
        BIN / "psql",
        "-X",
        "-q",
        "-o",
        "/dev/null",
        *words,
        servers.source.dsn(),
    ]
    cost = run(command, {}, {"source": servers.source})
    return Outcome(cost.seconds, cost.servers["source"])


def copy(servers: Servers) -> Outcome:
    """Send the columns that the model needs, of both tables, to nowhere."""
    columns = "(customer_id, state, cents)"
    tables = ("orders", "old_orders")
    return psql(servers, *(f"copy {name} {columns} to stdout" for name in tables))


def count(servers: Servers) -> Outcome:
    """Count by GROUP BY in one process, with memory enough for the server's hash table."""
    alone = "set max_parallel_workers_per_gather = 0"
    return psql(servers, alone, "set work_mem = '512MB'", f"copy ({RECOUNT.strip()}) to stdout")


WAYS: dict[str, Callable[[Servers], Outcome]] = {
    "COPY of the columns": copy,
    "psql": count,
    "seed": seed,
    "audit": audit,
}
"""Ways to count by name; the first is what the CPU of the others is set against."""


def measure(
    rows: int, groups: Sequence[int], rounds: int, tasks: Sequence[int]
) -> Iterator[report.Table]:
    """Measure all ways with each number of groups. Raises RuntimeError where a count is wrong."""
    found: list[report.Row] = []
    masters = [f"local[{number}]" for number in tasks]
    more = {f"seed, {each}": _by(each) for each in masters}
    ways = {**WAYS, **more}
    for number in groups:
        outcomes: dict[str, list[Outcome]] = {name: [] for name in ways}
        with ExitStack() as stack:
            servers = start(stack, _SERVER, rows, number)
            right = checksum(servers.source, RECOUNT)
            for turn in range(rounds):
                for name, way in ways.items():
                    outcomes[name].append(way(servers))
                    say(f"  round {turn + 1}: {name}: {outcomes[name][-1].seconds:.1f} s")
                if (seeded := checksum(servers.warehouse, _BASELINE)) != right:
                    raise RuntimeError(f"the seed counted {seeded[:2]}, the server {right[:2]}")
        found += (row(name, taken, outcomes, right) for name, taken in outcomes.items())
    say(f"goals: {GOALS}")
    yield report.Table("seed", found, {"goals": GOALS})


def row(
    name: str, taken: list[Outcome], outcomes: dict[str, list[Outcome]], right: tuple[Any, ...]
) -> report.Row:
    """Return a way's row: medians, and its CPU beside that of the first way."""
    floor = next(iter(outcomes.values()))
    ratios = [one.source_cpu / copied.source_cpu for one, copied in zip(taken, floor, strict=True)]
    seconds = median(one.seconds for one in taken)
    jobs = [one.job for one in taken if one.job is not None]
    whole = [one.seconds / own.seconds for one, own in zip(taken, outcomes["seed"], strict=True)]
    spark = [one.spark_cpu for one in taken if one.spark_cpu is not None]
    memory = [one.memory for one in taken if one.memory is not None]
    return {
        "counted by": name,
        "groups": right[0],
        "seconds": seconds,
        "rows/s": right[1] / seconds,
        "time, x seed": report.spread(whole) if jobs else None,
        "without Spark's start, s": median(jobs) if jobs else None,
        "Spark's CPU, s": median(spark) if spark else None,
        "source's CPU, s": median(one.source_cpu for one in taken),
        "x COPY": report.spread(ratios),
        "memory, MB": median(memory) / 1e6 if memory else None,
    }


if __name__ == "__main__":
    report.main(
        __doc__,
        measure,
        rows=(1_000_000, "rows of both tables"),
        groups=([10_000, 1_000_000], "numbers of groups"),
        rounds=(3, "runs of each way"),
        tasks=([], "seeds by so many tasks at once beside it, as by `--master local[1]`"),
    )
