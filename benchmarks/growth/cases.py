"""A build of one batch in warehouses that differ in one size, round by round."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median

from benchmarks.growth.build import Build
from benchmarks.growth.warehouse import State
from demo.cluster import Cluster
from loader.build.builder import Models

WAL_PER_CHANGE = 1300
"""Bytes of the source's WAL between two commits in the made logs."""
TOUCHED = 500
"""Groups that a batch touches, from all over the fact."""
PER_PARTITION = 1000
"""Rows in each partition where partitions are what grows."""


Say = Callable[[str], None]


@dataclass
class Case:
    """One size of one thing, and the builds it took."""

    grows: str
    size: int
    state: State
    touched: int
    builds: list[Build] = field(default_factory=list)


def make_cases(
    cluster: Cluster, models: Models, payload: str, options: argparse.Namespace, say: Say
) -> list[Case]:
    """Make a database for each size; the smallest is the first of each thing that grows."""

    def make(rows: int, groups: int, per_window: int | None = None) -> State:
        made.append(State(cluster, models, f"state_{len(made)}", WAL_PER_CHANGE, payload))
        made[-1].fill_log(rows, per_window)
        made[-1].fill_fact(groups)
        count = len(made[-1].partitions())
        say(f"made a log of {rows:,} rows in {count} partitions, a fact of {groups:,} groups")
        return made[-1]

    made: list[State] = []
    rows, groups, parts = options.log_rows, options.groups, options.partitions
    smallest = make(rows[0], groups[0])
    logs = [smallest, *(make(n, groups[0]) for n in rows[1:])]
    facts = [smallest, *(make(rows[0], n) for n in groups[1:])]
    many = [make(n * PER_PARTITION, groups[0], PER_PARTITION) for n in parts]
    spread = min(options.changes, groups[-1])
    return [
        *(Case("log rows", n, state, TOUCHED) for n, state in zip(rows, logs, strict=True)),
        *(Case("fact groups", n, state, TOUCHED) for n, state in zip(groups, facts, strict=True)),
        *(
            Case("fact groups, each change its own", n, state, spread)
            for n, state in zip(groups, facts, strict=True)
            if n >= spread
        ),
        *(Case("partitions", n, state, TOUCHED) for n, state in zip(parts, many, strict=True)),
    ]


def time_builds(cases: Sequence[Case], rounds: int, changes: int, say: Say) -> None:
    """Build a batch in each case, one after the other in each round, and check the counts."""
    for number in range(-1, rounds):
        # There and back, so that a drift of the machine meets each alike.
        for case in cases if number % 2 else reversed(cases):
            case.state.stage(changes, case.touched)
            build = case.state.build()
            if number >= 0:  # the first only warms up
                case.builds.append(build)
        say(f"builds: round {number + 1} of {rounds}")
    for case in cases:
        case.state.check()


def build_rows(cases: Sequence[Case]) -> list[dict[str, object]]:
    """Return a row for each case, compared with the smallest of what grows."""
    rows: list[dict[str, object]] = []
    for case in cases:
        smallest = next(c for c in cases if c.grows == case.grows)
        cpu, base = ([b.server for b in c.builds] for c in (case, smallest))
        seconds, base_seconds = ([b.seconds for b in c.builds] for c in (case, smallest))
        rows.append(
            {
                "what grows": case.grows,
                "size": case.size,
                "server CPU s": median(cpu),
                "min": min(cpu),
                "max": max(cpu),
                "CPU, x smallest": median(cpu) / median(base),
                "seconds": median(seconds),
                "min s": min(seconds),
                "max s": max(seconds),
                "time, x smallest": median(seconds) / median(base_seconds),
                "dbt CPU s": median(b.dbt for b in case.builds),
            }
        )
    return rows
