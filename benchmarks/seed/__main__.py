"""What counting the existing rows costs: the seed, psql and a plain COPY.

python -m benchmarks.seed --rows 1000000 --rounds 3

Two tables of --rows rows in all, spread evenly over --few and then over --many groups. Each
contender counts them, one after the other in each round. The primary's CPU is compared with that
of a plain COPY of the same columns in the same round. The counts go to another server, so that the
primary only reads. Every stored count is compared with the server's own.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from statistics import median

from benchmarks import report
from benchmarks.measure import say
from benchmarks.seed.contenders import Contenders, Outcome
from benchmarks.seed.tables import Counted, checksum, count_on_server, create, fill
from testkit.servers import Cluster

GOALS = {
    "primary's CPU, x COPY": "0.5 with few groups, 1.0 with many",
    "memory": "flat as rows grow",
}

_SERVER = {"autovacuum": "off", "max_wal_size": "'64GB'", "checkpoint_timeout": "'1h'"}


def run_rounds(
    rounds: int,
    ways: Mapping[str, Callable[[], Outcome]],
    warehouse: Cluster,
    right: Counted,
) -> dict[str, list[Outcome]]:
    """Run every way in every round. Raises RuntimeError where a stored count is wrong."""
    outcomes: dict[str, list[Outcome]] = {name: [] for name in ways}
    for turn in range(rounds):
        for name, way in ways.items():
            outcome = way()
            say(f"  round {turn + 1}: {name}: {outcome.seconds:.1f} s")
            if outcome.stored and (found := checksum(warehouse, outcome.stored)) != right:
                raise RuntimeError(f"{name} counted {found[:2]}, the server {right[:2]}")
            outcomes[name].append(outcome)
    return outcomes


def median_of(values: Sequence[float | None]) -> float | None:
    """Return the median of what was measured, None where nothing was."""
    measured = [value for value in values if value is not None]
    return round(median(measured), 2) if measured else None


def cost_rows(outcomes: Mapping[str, list[Outcome]], counted: Counted) -> list[report.Row]:
    """Return a row for each contender; the first is the floor that the CPU is set against."""
    floor = next(iter(outcomes.values()))
    groups, rows = (int(str(number)) for number in counted[:2])
    table: list[report.Row] = []
    for name, found in outcomes.items():
        ratios = [one.primary / each.primary for one, each in zip(found, floor, strict=True)]
        seconds = median(one.seconds for one in found)
        table.append(
            {
                "counted by": name,
                "groups": groups,
                "seconds": round(seconds, 2),
                "rows/s": round(rows / seconds),
                "counting alone, s": median_of([one.counting for one in found]),
                "primary's CPU, s": median_of([one.primary for one in found]),
                "x COPY": median_of(ratios),
                "least": round(min(ratios), 2),
                "most": round(max(ratios), 2),
                "memory, MB": median_of([one.peak_mb for one in found]),
            }
        )
    return table


@contextmanager
def servers(groups: int) -> Iterator[Contenders]:
    """Start two servers with the tables still empty."""
    with ExitStack() as stack:
        primary = stack.enter_context(Cluster(_SERVER))
        warehouse = stack.enter_context(Cluster(_SERVER))
        create(primary, warehouse, groups)
        yield Contenders(primary, warehouse)


def compare(groups: int, options: argparse.Namespace) -> list[report.Row]:
    """Fill the tables with rows of so many groups and run every contender."""
    with servers(groups) as contenders:
        say(f"{options.rows:,} rows in about {groups:,} groups")
        fill(contenders.primary, options.rows, groups)
        ways = contenders.by_name()
        counted = count_on_server(contenders.primary)
        return cost_rows(run_rounds(options.rounds, ways, contenders.warehouse, counted), counted)


def main() -> None:
    """Run the stages that were asked for, and publish each as it ends."""
    parser = report.parser(__doc__)
    add = parser.add_argument
    add("--rows", type=int, default=1_000_000, help="rows of both tables (%(default)s)")
    add("--rounds", type=int, default=3, help="runs of each contender (%(default)s)")
    add("--few", type=int, default=10_000, help="groups of the first filling (%(default)s)")
    add(
        "--many",
        type=int,
        default=1_000_000,
        help="groups of the second, 0 for none (%(default)s)",
    )
    options = parser.parse_args()
    sizes = {"sizes": vars(options), "goals": GOALS}
    rows: list[report.Row] = []
    for groups in (options.few, options.many):
        if groups:
            rows += compare(groups, options)
    report.publish("seed", rows, None, **sizes)


if __name__ == "__main__":
    main()
