"""From raw JSON to the merged fact: CPU per change, and what the whole way costs beside decoding.

python -m benchmarks.apply --rows 200000 --rounds 3
python -m benchmarks.apply --project examples/notify    # two facts of the same tables
python -m benchmarks.apply --spark 'local[*]'           # spark/apply.py in place of cdc.apply

For each kind of change: decoding alone, then loader and COPY, then one `cdc.apply`, in
rounds of which the table has the medians. CPU is that of all processes of the server (the backend,
checkpoints, the WAL writer) and of the program. The CPU of the same command with nothing to do is
subtracted and reported apart: it is paid per build, not per change. There are two servers, so that
each stage's part is seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import NamedTuple

import psycopg2

from benchmarks import decoding, report, workload
from benchmarks.measure import ROOT, Cost, run, say
from testkit import source as demo_source
from testkit.servers import BIN, Cluster

GOALS = {"changes per CPU second of the server": 100_000, "whole / decoding": 3.0}

_SOURCE = {"max_replication_slots": "30", "max_wal_senders": "20", "max_wal_size": "16GB"}
_TARGET = {
    # As on a server that has run for a while, WAL goes into files that are there already.
    "min_wal_size": "4GB",
    "max_wal_size": "16GB",
    "shared_buffers": "1GB",
}

_STATUS = "update notifications set notification_status = "
_OF_THE_DAY = ("key_type", "created_at")
"""What the second fact of examples/notify needs of an old row, besides the first one's columns."""

KINDS = {
    "inserts": None,
    "updates, whole old row": f"{_STATUS} 'sent'",
    "updates that move nothing": "update notifications set reference = 'r'",
    "updates, covering index": f"{_STATUS} 'delivered'",
    "deletes, covering index": "delete from notifications",
}
"""The statement that makes the changes, by the kind's name; the order matters."""


def decode(source: Cluster, slot: str, end: str) -> Cost:
    """Return the cost of decoding a slot's WAL up to the end, into nothing."""
    program, *words = decoding.command(source, slot, end)
    return run([BIN / program, *words], {}, {"source": source})


class Round(NamedTuple):
    """CPU seconds of one kind of change, less what the same costs with nothing to do."""

    decode: float
    loader: float
    copy: float
    apply: float
    empty_build: float
    seconds: float
    """From the start of the apply to its end, less what it takes with nothing to do."""


def measure(rows: int, rounds: int, project: Path, spark: str) -> Iterator[dict[str, object]]:
    """Yield a row of the table for each kind of change: medians of the rounds."""
    with Cluster(_SOURCE) as source, Cluster(_TARGET) as target:
        workload.create(source)
        for place, (kind, statement) in enumerate(KINDS.items()):
            if kind == "updates, covering index":
                columns = (*demo_source.DIMENSIONS, *(_OF_THE_DAY if project != ROOT else ()))
                demo_source.set_identity(source.dsn(), "covering", columns)
            slots = [f"apply_{place}_{number}" for number in range(rounds)]
            for slot in slots:
                prepare(source, target, slot, project)
                decoding.make_slot(source, f"{slot}_alone")
            if statement is None:
                workload.insert(source, rows, 5_000)
            else:
                _execute(source, statement)
            end = decoding.wal_end(source)
            found = [one_round(source, target, slot, end, rows, project, spark) for slot in slots]
            size = _value(target, "select avg(octet_length(payload))::int from cdc.change_log")
            yield _row(kind, rows, size, found)
            say(f"{kind}: done")


def prepare(source: Cluster, target: Cluster, slot: str, project: Path) -> None:
    """Make the slot that feeds the facts, in place of the one that did; a fact has one slot."""
    if _value(target, "select to_regclass('cdc.fact')"):
        _execute(target, "truncate cdc.fact, cdc.model_watermark, cdc.installed_model")
        _execute(target, "drop schema if exists analytics cascade")
    workload.set_up(source, target, slot, project)


def one_round(
    source: Cluster, target: Cluster, slot: str, end: str, rows: int, project: Path, spark: str
) -> Round:
    """Decode, stage and apply what the slot has, into a warehouse that holds nothing else."""
    clusters = {"source": source, "target": target}
    prepare(source, target, slot, project)
    environment = workload.environment(source, target, slot, project)
    _execute(target, "truncate cdc.change_log")
    alone = decode(source, f"{slot}_alone", end)
    loader: list[str | Path] = [workload.LOADER, "run", "--once"]
    staged = run(loader, environment, clusters)
    staged_idle = run(loader, environment, clusters)
    _execute(target, "vacuum analyze cdc.change_log")
    apply: list[str | Path] = [*loader, "--build"]
    if spark:
        _execute(target, "update cdc.installed_model set engine = 'spark'")
        apply = [workload.BIN / "spark-submit", "--master", spark, "spark/apply.py", "--once"]
    built = run(apply, environment, clusters)
    built_idle = run(apply, environment, clusters)
    _check(target, slot, rows)
    for name in (slot, f"{slot}_alone"):
        decoding.drop_slot(source, name)
    return Round(
        decode=alone.servers["source"],
        loader=staged.program - staged_idle.program,
        copy=staged.servers["target"] - staged_idle.servers["target"],
        apply=built.servers["target"] - built_idle.servers["target"],
        empty_build=built_idle.servers["target"],
        seconds=built.seconds - built_idle.seconds,
    )


def _row(kind: str, rows: int, size: object, rounds: list[Round]) -> dict[str, object]:
    def micros(pick: Callable[[Round], float]) -> float:
        return median(pick(each) for each in rounds) / rows * 1e6

    apply = micros(lambda each: each.apply)
    whole = [(each.decode + each.loader + each.copy + each.apply) / each.decode for each in rounds]
    return {
        "changes": kind,
        "JSON bytes": size,
        "decode µs": micros(lambda each: each.decode),
        "loader µs": micros(lambda each: each.loader),
        "COPY µs": micros(lambda each: each.copy),
        "apply µs": apply,
        "applied per CPU s": 1e6 / apply,
        "whole / decode": median(whole),
        "applied per s": rows / median(each.seconds for each in rounds),
        "empty build, server ms": median(each.empty_build for each in rounds) * 1e3,
    }


def _check(target: Cluster, slot: str, rows: int) -> None:
    staged = _value(target, f"select count(*) from cdc.change_log where slot_name = '{slot}'")
    if staged != rows:
        raise RuntimeError(f"{staged} changes are staged, not {rows}")
    rejected = _value(target, "select count(*) from analytics.rejected_changes")
    if rejected:
        raise RuntimeError(f"{rejected} changes were rejected")
    waiting = _value(
        target,
        "select count(*) from cdc.model_watermark "
        f"where slot_name = '{slot}' and applied_lsn < (select position_lsn from cdc.slot_position "
        f"where slot_name = '{slot}')",
    )
    if waiting:
        raise RuntimeError(f"{waiting} models have not applied everything")


def _execute(cluster: Cluster, statement: str) -> None:
    with closing(psycopg2.connect(cluster.dsn())) as connection:
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute(statement)


def _value(cluster: Cluster, query: str) -> object:
    with closing(psycopg2.connect(cluster.dsn())) as connection, connection.cursor() as cursor:
        cursor.execute(query)
        ((found,),) = cursor.fetchall()
    return found


def main() -> None:
    """Measure every kind, then publish."""
    parser = report.parser(__doc__)
    parser.add_argument("--rows", type=int, default=200_000, help="changes of each kind")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--project", default=".", help="the dbt project with the facts")
    parser.add_argument("--spark", default="", metavar="MASTER", help="let Spark apply, there")
    given = parser.parse_args()
    project = (ROOT / given.project).resolve()
    if project != ROOT:
        run([workload.BIN / "dbt", "deps", "--quiet", "--project-dir", project], {}, {})
    rows = [*measure(given.rows, given.rounds, project, given.spark)]
    if project != ROOT or given.spark:
        report.show(f"apply, {given.project}, {given.spark}", rows)
        return
    report.publish("apply", rows, goals=GOALS, sizes=vars(given))


if __name__ == "__main__":
    main()
