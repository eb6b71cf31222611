"""How long after its commit a change is in `analytics.ft_service_stats`, with `loader run --build`.

python -m benchmarks.freshness --seconds 20 --rounds 3

One session writes: half inserts, half status updates, each commit on disk before the next one. A
poller reads the sum of the live counts when `NOTIFY waltally` tells it of an apply, and every
10 ms. A transaction is visible with the first answer that contains it. Source and target are one
server; replica identity full, 1 KB of JSON per insert.

Each round writes at the steady rate, then single rows with one to two seconds between them. Then
the rates rise, in larger transactions, up to the first rate that twice does not hold or that the
writer does not reach. A delay is flat where its p95 in the last third is at most 1.5 times that of
the first third + 0.5 s, and everything is visible 3 s after the last commit. With the loader
stopped, pg_recvlogical then reads the WAL of the fastest flat step into nothing, once per round:
decoding alone. In the steps the writer shares the machine's cores; in the decoding nobody does.

With --spark the model says engine='spark', and spark/apply.py applies it beside the loader:

python -m benchmarks.freshness --spark --rounds 1 --steps

Checked at the end: the change log has exactly the changes written, the model equals a recount.
"""

from __future__ import annotations

import argparse
import random
import time
from contextlib import ExitStack

from benchmarks import decoding, report, workload
from benchmarks.freshness.delays import delays
from benchmarks.freshness.load import ALLOWANCE, CATCH_UP, GROWTH, Load, Step
from benchmarks.freshness.poller import TargetPoller
from benchmarks.freshness.report import Found, steps_table, table
from benchmarks.freshness.writer import PacedWriter
from benchmarks.loader_process import running, running_loader
from benchmarks.measure import say
from testkit.recount import differences
from testkit.servers import Cluster
from testkit.source import transaction

SLOT = "freshness"
OTHERS = " application_name=benchmark"
SERVER = {"shared_buffers": "256MB", "max_wal_size": "4GB"}
FLAT = {"growth": GROWTH, "seconds on top": ALLOWANCE, "caught up within seconds": CATCH_UP}

_SINGLES = 20
_REACHED = 0.95
"""Share of the asked rate below which the writer is the limit, and no higher rate is tried."""


def measure(options: argparse.Namespace) -> Found:
    """Return what all rounds and steps found. Raises RuntimeError where a check fails."""
    found = Found()
    pauses = random.Random(1)
    with ExitStack() as stack:
        source = stack.enter_context(Cluster(SERVER))
        workload.create(source)
        workload.set_up(source, source, SLOT)
        if options.spark:
            workload.ask(source.dsn(), "update cdc.installed_model set engine = 'spark'")
            settings = workload.environment(source, source, SLOT)
            stack.enter_context(
                running([str(workload.BIN / "spark-submit"), "spark/apply.py"], settings)
            )
        writer = stack.enter_context(PacedWriter(source.dsn() + OTHERS))
        with (
            running_loader(source, source, SLOT) as loader,
            TargetPoller(source.dsn() + OTHERS, SLOT) as poller,
        ):
            load = Load(writer, poller, loader, source)
            writer.write(1_000)
            load.settle()
            load.steady(options.rate, 1, options.each)
            say(f"warm after {time.time() - loader.began:.1f} s")
            steady, singles = [], []
            for number in range(options.rounds):
                built, began, cpu = len(loader.builds()), time.monotonic(), load.cpu_seconds()
                steady.append(load.steady(options.rate, options.seconds, options.each))
                elapsed = time.monotonic() - began
                found.cpu.append(
                    [
                        (after - before) / elapsed
                        for before, after in zip(cpu, load.cpu_seconds(), strict=True)
                    ]
                )
                found.builds += loader.builds()[built:]
                count = -(-_SINGLES // options.rounds)
                singles.append(load.singles(count, pauses))
                say(f"round {number + 1} of {options.rounds}")
            for rate in options.steps:
                found.steps += (tried := _try(load, rate, options))
                if not tried[-1].is_flat or tried[-1].reached < _REACHED * rate:
                    break
        found_delays = list(delays(writer.committed, _commit_lsns(source), poller.observations))
        found.steady = [found_delays[place] for place in steady]
        found.singles = [found_delays[place] for place in singles]
        _check(source, writer)
        if fastest := found.fastest:
            for _ in range(options.rounds):
                seconds = decoding.decode(source, fastest.slot, fastest.end, SLOT)
                found.decoding.append(fastest.changes / seconds)
                say(f"decoding alone: {found.decoding[-1]:,.0f} changes/s")
    return found


def _try(load: Load, rate: int, options: argparse.Namespace) -> list[Step]:
    """Return the steps of one rate: a second one where the first was not flat."""
    steps: list[Step] = []
    while len(steps) < 2 and not (steps and steps[-1].is_flat):
        steps.append(step := load.step(rate, options.step_seconds, options.step_each))
        say(
            f"{rate:,} changes/s: {step.reached:,.0f} reached, p95 {step.first:.2f} s, "
            f"then {step.last:.2f} s, {'flat' if step.is_flat else 'not flat'}"
        )
    return steps


def _commit_lsns(server: Cluster) -> list[int]:
    with transaction(server.dsn()) as cursor:
        cursor.execute(
            "select (commit_lsn - '0/0')::bigint from cdc.change_log group by commit_lsn order by 1"
        )
        return [int(position) for (position,) in cursor.fetchall()]


def _check(server: Cluster, writer: PacedWriter) -> None:
    with transaction(server.dsn()) as cursor:
        cursor.execute("select count(*) from cdc.change_log")
        ((staged,),) = cursor.fetchall()
    if staged != writer.changes:
        raise RuntimeError(f"{staged} changes are staged of {writer.changes}")
    if wrong := differences(server.dsn(), slot=SLOT):
        raise RuntimeError(f"{len(wrong)} groups differ from a recount, as {wrong[0]}")


def main() -> None:
    """Measure, and publish both tables and the figure."""
    parser = report.parser(__doc__)
    add = parser.add_argument
    add("--rate", type=int, default=2_000, help="the steady rate, changes/s (%(default)s)")
    add("--each", type=int, default=10, help="changes per transaction there (%(default)s)")
    add("--seconds", type=float, default=20, help="of the steady rate per round (%(default)s)")
    add("--rounds", type=int, default=3, help="default: %(default)s")
    add(
        "--steps",
        type=int,
        nargs="*",
        default=[5_000, 10_000, 20_000, 30_000, 40_000, 60_000],
        help="rising rates, changes/s (%(default)s)",
    )
    add("--step-each", type=int, default=200, help="changes per transaction there (%(default)s)")
    add("--step-seconds", type=float, default=12, help="of each step (%(default)s)")
    add("--spark", action="store_true", help="apply by spark/apply.py")
    options = parser.parse_args()
    found = measure(options)
    report.publish(
        "freshness_spark" if options.spark else "freshness",
        table(found, options.rate),
        sizes=vars(options),
    )
    if found.steps:
        rows = steps_table(found)
        report.publish("freshness_steps", rows, goals=FLAT, sizes=vars(options))


if __name__ == "__main__":
    main()
