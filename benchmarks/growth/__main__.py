"""Whether a build costs more as the log, the fact and the partitions grow.

python -m benchmarks.growth --rounds 5

A database for each size, with a change log and a fact made by SQL. Each round stages a batch of
--changes inserts in every database and builds once. A batch touches 500 groups from all over the
fact. Autovacuum is off and no checkpoint comes between, so the numbers contain neither.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

from benchmarks import report, workload
from benchmarks.growth.warehouse import Warehouse, prepare
from benchmarks.measure import say
from demo.cluster import Cluster

GOALS = {"CPU, x smallest: log rows": 1.1, "CPU, x smallest: fact groups": 1.1}
SERVER = {
    "autovacuum": "off",
    "shared_buffers": "256MB",
    "max_wal_size": "'16GB'",
    "checkpoint_timeout": "'1h'",
}
TOUCHED = 500
"""Groups that a batch touches."""
FULL, FEW = 3_300_000, 1_000
"""Rows in each partition: as years of changes fill it, and where partitions are what grows."""


class Case(NamedTuple):
    """One size of one thing."""

    grows: str
    size: int
    warehouse: Warehouse


Builds = Mapping[Case, Sequence[tuple[float, float]]]
"""Seconds and CPU seconds of the server of each build."""


def make_cases(cluster: Cluster, options: argparse.Namespace) -> list[Case]:
    """Make a database for each size; the smallest is the first of each thing that grows."""

    def make(rows: int, groups: int, partitions: int) -> Warehouse:
        say(f"a log of {rows:,} rows in {partitions} partitions, a fact of {groups:,} groups")
        return Warehouse(cluster, rows, groups, partitions)

    rows, groups = options.log_rows[0], options.groups[0]
    return [
        *(Case("log rows", n, make(n, groups, -(-n // FULL))) for n in options.log_rows),
        *(Case("fact groups", n, make(rows, n, 1)) for n in options.groups),
        *(Case("partitions", n, make(n * FEW, groups, n)) for n in options.partitions),
    ]


def time_builds(cases: Sequence[Case], rounds: int, changes: int) -> Builds:
    """Build a batch in each case, one after the other in each round, and check the counts."""
    for case in cases:
        case.warehouse.install()
        case.warehouse.vacuum()
    builds: dict[Case, list[tuple[float, float]]] = {case: [] for case in cases}
    for number in range(-1, rounds):
        # There and back, so that a drift of the machine meets all cases alike.
        for case in cases if number % 2 else reversed(cases):
            case.warehouse.stage(changes, TOUCHED)
            build = case.warehouse.build()
            if number >= 0:  # the first only warms up
                builds[case].append(build)
        say(f"builds: round {number + 1} of {rounds}")
    for case in cases:
        case.warehouse.check()
    return builds


def table(builds: Builds) -> list[report.Row]:
    """Return a row for each case, compared with the smallest of what grows."""
    rows: list[report.Row] = []
    for case, mine in builds.items():
        smallest = next(found for other, found in builds.items() if other.grows == case.grows)
        (seconds, cpu), (base_seconds, base_cpu) = (
            zip(*found, strict=True) for found in (mine, smallest)
        )
        rows.append(
            {
                "what grows": case.grows,
                "size": case.size,
                "server CPU s": median(cpu),
                "least": min(cpu),
                "most": max(cpu),
                "CPU, x smallest": median(cpu) / median(base_cpu),
                "seconds": median(seconds),
                "time, x smallest": median(seconds) / median(base_seconds),
            }
        )
    return rows


def main() -> None:
    """Measure and publish."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    sizes = {
        "--log-rows": ([100_000, 1_000_000, 10_000_000], "sizes of the change log"),
        "--groups": ([1_000, 100_000, 1_000_000], "sizes of the fact"),
        "--partitions": ([1, 10, 100, 400], "partitions of the change log"),
    }
    for name, (default, means) in sizes.items():
        text = f"{means} (default: {' '.join(map(str, default))})"
        add(name, type=int, nargs="+", default=default, help=text)
    add("--changes", type=int, default=10_000, help="changes per build (default: %(default)s)")
    add("--rounds", type=int, default=5, help="rounds of builds (default: %(default)s)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as home, Cluster(SERVER) as cluster:
        os.environ |= workload.dbt_home(Path(home))  # dbt runs in this process
        prepare(cluster)
        cases = make_cases(cluster, options)
        cluster.run("psql", "--quiet", "--command=checkpoint", cluster.dsn())
        rows = table(time_builds(cases, options.rounds, options.changes))
    report.publish("growth", rows, goals=GOALS, sizes=vars(options), touched=TOUCHED)


if __name__ == "__main__":
    main()
