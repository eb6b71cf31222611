"""What grows when the system runs for years, and what does not.

python -m benchmarks.growth --rounds 5

1. A build of --changes inserts, with more and more rows in the change log, groups in the fact, and
   partitions of the log. Server CPU and time, each against the smallest size in the same rounds.
   The batch touches as many groups everywhere, from all over the fact; one more pair of rows has a
   batch where each change touches a group of its own. The rows that are there already have short
   payloads, as no build reads them; the batch's are as wal2json sends them. Autovacuum is off and
   no checkpoint comes between, so neither is in the figures.
2. Planning the fact's batch, as each build does, as partitions grow; and what is left when the
   partitions are dropped that hold only applied changes.
3. What one change costs in bytes and CPU (benchmarks.growth.changes).
4. What machine --notifications a year need by that (benchmarks.growth.machine). CPU for storing
   and applying is taken from benchmarks.apply where that has run.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import median

from benchmarks import report, workload
from benchmarks.growth.build import SLOT, in_dbt_home
from benchmarks.growth.cases import TOUCHED, Case, build_rows, make_cases, time_builds
from benchmarks.growth.changes import CPU, Costs, Pipeline
from benchmarks.growth.machine import MIX, PEAK, machine, with_measured
from benchmarks.growth.warehouse import State
from benchmarks.measure import say
from demo.cluster import Cluster
from demo.source import transaction
from loader.build.builder import Models
from loader.staging.layout import PARTITION_BITS

GOAL = 1.1
GOALS = {"x smallest, log rows": GOAL, "x smallest, fact groups": GOAL}
SETTINGS = {
    "autovacuum": "off",
    "shared_buffers": "256MB",
    "max_wal_size": "'16GB'",
    "checkpoint_timeout": "'1h'",
}


def planning_rows(cases: Sequence[Case], rounds: int, target: Path) -> list[dict[str, object]]:
    """Return how long planning takes for each number of partitions."""
    cases = [case for case in cases if case.grows == "partitions"]
    found: dict[int, list[float]] = {}
    for _ in range(rounds):
        for case in cases:
            milliseconds = case.state.planning_seconds(target) * 1000
            found.setdefault(case.size, []).append(milliseconds)
    return [
        {"partitions": n, "planning ms": median(ms), "min": min(ms), "max": max(ms)}
        for n, ms in found.items()
    ]


def prune_row(state: State, changes: int) -> dict[str, object]:
    """Drop what is applied, see that builds go on, and return what was there and what is left."""
    before, rows = state.partitions(), state.log_rows()
    dropped, seconds = state.drop_applied()
    after = state.partitions()
    row: dict[str, object] = {
        "log rows": rows,
        "partitions": len(before),
        "MB": sum(size for _, size in before) / 1e6,
        "dropped": dropped,
        "seconds": seconds,
        "rows left": state.log_rows(),
        "partitions left": len(after),
        "MB left": sum(size for _, size in after) / 1e6,
    }
    state.stage(changes, TOUCHED)
    state.build()
    state.check()
    return row


def change_rows(costs: Costs) -> list[dict[str, object]]:
    """Return a row for each identity and kind of change: bytes, and CPU microseconds."""
    rows: list[dict[str, object]] = []
    for (identity, kind), cost in costs.items():
        row: dict[str, object] = {"change": f"{kind}, identity {identity}"}
        for name, value in asdict(cost).items():
            is_cpu = name in CPU
            row[f"{name} {'µs' if is_cpu else 'bytes'}"] = value * 1e6 if is_cpu else value
        rows.append(row)
    return rows


def measured_apply() -> list[dict[str, object]]:
    """Return the rows that benchmarks.apply left, none where it has not run."""
    path = report.RESULTS / "apply.json"
    return list(json.loads(path.read_text())["rows"]) if path.exists() else []


def draw(rows: Sequence[dict[str, object]]) -> None:
    """Draw a build's CPU against the smallest size, for each thing that grows."""
    with report.figure("growth") as axes:
        for grows in dict.fromkeys(str(row["what grows"]) for row in rows):
            mine = [row for row in rows if row["what grows"] == grows]
            sizes, ratios = ([float(str(r[c])) for r in mine] for c in ("size", "CPU, x smallest"))
            axes.plot(sizes, ratios, marker="o", label=grows)
        axes.axhline(GOAL, color="grey", linestyle="--", label="goal")
        axes.set_xscale("log")
        axes.set_ylim(bottom=0)
        axes.set_xlabel("rows in the log, groups in the fact, partitions")
        axes.set_ylabel("server CPU of a build, x smallest")
        axes.legend(fontsize="small")


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )

    def add(name: str, default: int | list[int], means: str) -> None:
        shown = " ".join(map(str, default)) if isinstance(default, list) else default
        nargs = "+" if isinstance(default, list) else None
        text = f"{means} (default: {shown})"
        parser.add_argument(name, type=int, nargs=nargs, default=default, help=text)

    add("--log-rows", [100_000, 1_000_000, 10_000_000], "sizes of the change log")
    add("--groups", [1_000, 100_000, 1_000_000], "sizes of the fact")
    add("--partitions", [1, 10, 100, 400], "partitions of the change log")
    add("--changes", 10_000, "changes that a build applies")
    add("--rows", 20_000, "changes of each kind whose costs are measured")
    add("--rounds", 5, "rounds of builds; costs of a change take at most three")
    add("--notifications", 500_000_000, "notifications a year that the machine is for")
    return parser.parse_args()


def main() -> None:
    """Measure and publish."""
    options = parse()
    models = Models()
    with (
        tempfile.TemporaryDirectory() as home,
        Cluster(SETTINGS) as primary,
        Cluster(SETTINGS) as warehouse,
        in_dbt_home(Path(home)),
    ):
        pipeline = Pipeline(primary, warehouse, Models(), options.rows)
        costs, empty = pipeline.costs(min(options.rounds, 3), say)
        payload = pipeline.insert_form()
        with Cluster(SETTINGS) as cluster:
            workload.create(cluster)
            workload.set_up(cluster, cluster, SLOT)
            with transaction(cluster.dsn()) as cursor:
                # The log is made by SQL; the slot would only hold its WAL.
                cursor.execute("select pg_drop_replication_slot(%s)", (SLOT,))
            cases = make_cases(cluster, models, payload, options, say)
            # Before the builds: without autovacuum they leave dead rows.
            facts = [c.state.fact_row() for c in cases if c.grows == "fact groups"]
            with transaction(cluster.dsn()) as cursor:
                cursor.execute("checkpoint")
            time_builds(cases, options.rounds, options.changes, say)
            planning = planning_rows(cases, options.rounds, Path(home) / "target")
            longest = [c.state for c in cases if c.grows == "log rows"][-1]
            pruned = prune_row(longest, options.changes)
    sizes = vars(options)
    rows = build_rows(cases)
    report.publish("growth", rows, goals=GOALS, sizes=sizes, touched=TOUCHED)
    report.publish("growth_planning", planning, sizes=sizes)
    report.publish("growth_prune", [pruned], sizes=sizes)
    report.publish("growth_changes", change_rows(costs), sizes=sizes)
    report.publish("growth_fact", facts, sizes=sizes)
    group_bytes = sum(float(str(facts[-1][f"{part} bytes a group"])) for part in ("heap", "index"))
    costs = with_measured(costs, measured_apply())
    needs = machine(costs, empty, group_bytes, options.notifications, 1 << PARTITION_BITS)
    report.publish("growth_machine", needs, sizes=sizes, mix=MIX, peak=PEAK)
    draw(rows)


if __name__ == "__main__":
    main()
