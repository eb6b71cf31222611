"""What following a table costs the application that writes to it, against counting by triggers.

python -m benchmarks.overhead --rows 50000 --rounds 3

Two pgbench clients write to `notifications` on one server: 95 status updates by id, 5 inserts. With
them runs nothing; or a slot and `loader run`, which stores into a second server, under each replica
identity; or triggers that keep the counts in a table. Every measurement starts from a copy of the
same database, in memory, and writes three times, each time after a checkpoint:

- a fixed number of writes that do not wait for the disk: CPU and WAL,
- at half the rate that `nothing` reached: latency,
- as fast as commits get to the disk: throughput.

Every round takes each condition once and begins with another one each time. Ratios are to `nothing`
of the same round. The source server and its writers have one half of this machine's cores in every
condition, loader and target the other half; they share the disk. The WAL sender's CPU time belongs
to the source. The later work of vacuum is not measured. Checked in each measurement: the change log
has as many changes as were written, the triggers' counts equal a recount.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack

from benchmarks import report
from benchmarks.measure import say
from benchmarks.overhead.application import SETTINGS, Application
from benchmarks.overhead.conditions import CONDITIONS, NOTHING
from benchmarks.overhead.cpu_pinning import LOADER_CORES, SOURCE_CORES, pinned_to
from benchmarks.overhead.sample import Sample, Sampler
from testkit.servers import Cluster

GOALS = {"throughput lost to the loader, at most": 0.05, "triggers lose at least": 0.15}

Samples = Mapping[str, Sequence[Sample]]


def measure(rows: int, rounds: int, seconds: int, writes: int) -> Samples:
    """Return the samples of each condition, one per round, in the order of the rounds."""
    samples: dict[str, list[Sample]] = {condition.name: [] for condition in CONDITIONS}
    with ExitStack() as servers:
        with pinned_to(LOADER_CORES):
            target = servers.enter_context(Cluster())
        servers.enter_context(pinned_to(SOURCE_CORES))
        cluster = servers.enter_context(Cluster(SETTINGS))
        sampler = Sampler(Application(cluster, rows), target, seconds, writes)
        pace = round(sampler.fastest(seed=1) / 2)
        say(f"the fixed rate is {pace:,} writes per second")
        for number in range(rounds):
            turn = number * len(CONDITIONS) // rounds
            for condition in (*CONDITIONS[turn:], *CONDITIONS[:turn]):
                sample = sampler.sample(condition, 10 * (number + 1), pace)
                samples[condition.name].append(sample)
                say(
                    f"round {number + 1}, {condition.name}: {sample.per_second:,.0f} writes/s, "
                    f"{sample.source_cpu:,.0f} µs of CPU and {sample.wal:,.0f} bytes of WAL each"
                )
    return samples


def table(samples: Samples) -> list[report.Row]:
    """Return one row per condition: medians, and ratios with the least and the most of them."""
    rows: list[report.Row] = []
    for name, taken in samples.items():
        throughput = _ratios(samples, name, lambda sample: sample.per_second)
        unawaited = _ratios(samples, name, lambda sample: sample.per_second_unawaited)
        source_cpu = _ratios(samples, name, lambda sample: sample.source_cpu)
        rows.append(
            {
                "beside the writers": name,
                "writes/s": _median(taken, lambda sample: sample.per_second),
                "ratio": report.spread(throughput),
                "ratio without waits": report.spread(unawaited),
                "source CPU, µs": _median(taken, lambda sample: sample.source_cpu),
                "of it WAL sender": _median(taken, lambda sample: sample.sender_cpu),
                "CPU ratio": report.spread(source_cpu),
                "loader, target CPU, µs": _median(taken, lambda sample: sample.loader_cpu),
                "WAL, bytes": _median(taken, lambda sample: sample.wal),
                "full pages, bytes": _median(taken, lambda sample: sample.full_pages),
                "mean, ms": _median(taken, lambda sample: sample.mean_ms),
                "p95, ms": _median(taken, lambda sample: sample.p95_ms),
            }
        )
    return rows


def for_page(rows: Sequence[report.Row]) -> list[report.Row]:
    """Keep the columns that tell what an application pays."""
    details = ("ratio without waits", "full pages, bytes", "mean, ms")
    return [{key: value for key, value in row.items() if key not in details} for row in rows]


def draw(rows: Sequence[report.Row]) -> None:
    """Draw the source's CPU time per write, with the WAL sender's part apart."""
    names = [str(row["beside the writers"]) for row in rows]
    sender = [float(str(row["of it WAL sender"])) for row in rows]
    whole = [float(str(row["source CPU, µs"])) for row in rows]
    others = [total - part for total, part in zip(whole, sender, strict=True)]
    with report.figure("overhead") as axes:
        axes.barh(names, others, label="sessions and the rest of the server")
        axes.barh(names, sender, left=others, label="WAL sender")
        axes.set_xlim(right=max(whole) * 1.05)
        axes.invert_yaxis()
        axes.set_xlabel("CPU time of the source server per write, µs")
        axes.legend(loc="lower center", bbox_to_anchor=(0.4, 1), ncols=2)


def _ratios(samples: Samples, name: str, of: Callable[[Sample], float]) -> list[float]:
    pairs = zip(samples[name], samples[NOTHING.name], strict=True)
    return [of(one) / of(nothing) for one, nothing in pairs]


def _median(taken: Sequence[Sample], of: Callable[[Sample], float]) -> float:
    return statistics.median(of(sample) for sample in taken)


def main() -> None:
    """Measure, and publish the table and the figure."""
    parser = report.parser(__doc__)
    parser.add_argument("--rows", type=int, default=50_000, help="notifications (%(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="default: %(default)s")
    parser.add_argument(
        "--seconds", type=int, default=2, help="length of each timed run (%(default)s)"
    )
    parser.add_argument(
        "--writes", type=int, default=15_000, help="writes of the counted run (%(default)s)"
    )
    options = parser.parse_args()
    rows = table(measure(**vars(options)))
    report.publish("overhead", rows, for_page(rows), goals=GOALS, sizes=vars(options))
    draw(rows)


if __name__ == "__main__":
    main()
