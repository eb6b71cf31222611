"""From raw JSON to the merged model: CPU per change, and what the whole way costs beside decoding.

python -m benchmarks.apply --rows 200000 --rounds 3
python -m benchmarks.apply --project examples/notify    # two models, not published
python -m benchmarks.apply --rows 400000 --workers 0 -2 2   # spark/apply.py beside cdc.apply
python -m benchmarks.apply --rows 1000000 --workers 0 -2 --models 1 3 10   # models in one pass

For each kind of change: decoding alone, then loader and COPY, then one `cdc.apply`, in
rounds of which the table has the medians. CPU is that of all processes of the server (the backend,
checkpoints, the WAL writer) and of the program. The CPU of the same command with nothing to do is
subtracted and reported apart: it is paid per build, not per change. There are two servers, so that
each stage's part is seen. `--workers` compares ways to apply a history, inserts and then as many
updates of a grouped column: 0 is the database itself, -2 is Spark's local[2], any other number a
standalone Spark cluster of so many workers of one core on this machine. Spark applies in two
batches, and the rate is that of the second one: starting Spark is in the first. Its CPU has all of
it, with JVM and Python.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from statistics import median
from typing import NamedTuple

from benchmarks import decoding, report, workload
from benchmarks.measure import ROOT, Cost, run, say
from benchmarks.models.__main__ import MODEL
from benchmarks.workload import BIN, LOADER, ask, create, declare, environment, insert
from testkit import source as demo_source
from testkit.servers import BIN as SERVER_BIN
from testkit.servers import Cluster
from testkit.spark_cluster import spark_cluster

GOALS = {"changes per CPU second of the server": 100_000, "whole / decoding": 3.0}
GOALS_OF_SPARK = {"applied per s": 60_000, "apply µs": 3.0}

_SOURCE = {"max_replication_slots": "30", "max_wal_senders": "20", "max_wal_size": "16GB"}
_TARGET = {
    # As on a server that has run for a while, WAL goes into files that are there already.
    "min_wal_size": "4GB",
    "max_wal_size": "16GB",
    "shared_buffers": "1GB",
}

_STATUS = "update notifications set notification_status = "
_OF_THE_DAY = ("key_type", "created_at")
"""What the second model of examples/notify needs of an old row, besides the first one's columns."""

KINDS: dict[str, str | None] = {
    "inserts": None,
    "updates, whole old row": f"{_STATUS} 'sent'",
    "updates that move nothing": "update notifications set reference = 'r'",
    "updates, covering index": f"{_STATUS} 'delivered'",
    "deletes, covering index": "delete from notifications",
}
"""The statement that makes the changes, by the kind's name; the order matters."""
MIXED = "inserts, then updates"
"""A kind that has as many inserts before its statement."""
_UPDATES = """
do $$ declare done bigint; begin loop
    update notifications set notification_status = 'sent'
    where id in (select id from notifications where notification_status <> 'sent' limit 5000);
    get diagnostics done = row_count;
    commit;
    exit when done = 0;
end loop; end $$
"""
"""In transactions as long as those of the inserts."""


_SIZE = "select avg(octet_length(payload))::int from cdc.change_log"
_CHECK = """
select
    (select count(*) from cdc.change_log where slot_name = %(slot)s),
    (select count(*) from analytics.rejected_changes),
    (
        select count(*)
        from cdc.model_watermark
        inner join cdc.slot_position using (slot_name)
        where slot_name = %(slot)s and applied_lsn < position_lsn
    )
"""


def decode(source: Cluster, slot: str, end: str) -> Cost:
    """Return the cost of decoding a slot's WAL up to the end, into nothing."""
    program, *words = decoding.command(source, slot, end)
    return run([SERVER_BIN / program, *words], {}, {"source": source})


class Round(NamedTuple):
    """CPU seconds of one kind of change, less what the same costs with nothing to do."""

    decode: float
    loader: float
    copy: float
    apply: float
    empty_build: float
    empty_seconds: float
    seconds: float
    """From the start of the apply to its end, less what it takes with nothing to do."""
    spark: float
    """CPU seconds of Spark; 0 where the database applies."""


def measure(
    rows: int, rounds: int, project: str, workers: Sequence[int], models: Sequence[int]
) -> Iterator[report.Table]:
    """Measure every kind of change, or the ways to apply inserts."""
    folder = (ROOT / project).resolve()
    if folder != ROOT:
        run([BIN / "dbt", "deps", "--quiet", "--project-dir", folder], {}, {})
    if not workers:
        found = [*measure_kinds(rows, rounds, folder)]
        for row in found:
            del row["empty build, s"], row["Spark µs"]
        yield report.Table("apply" if folder == ROOT else "", found, {"goals": GOALS})
        return
    if not models:
        found = [applied_by(number, rows, rounds, folder) for number in workers]
        say(f"goals of Spark: {GOALS_OF_SPARK}")
        yield report.Table("apply_spark", found, {"goals": GOALS_OF_SPARK})
        return
    found = []
    for count in models:
        with tempfile.TemporaryDirectory() as home:
            files = {f"models/ft_{number}.sql": MODEL for number in range(count)}
            declare(Path(home), files)
            for number in workers:
                found.append({"models": count} | applied_by(number, rows, rounds, Path(home)))
    yield report.Table("apply_models", found)


def applied_by(number: int, rows: int, rounds: int, folder: Path) -> dict[str, object]:
    """Return a row of the table for a way to apply."""
    with spark_cluster(number) if number > 0 else nullcontext() as cluster:
        spark = cluster.url if cluster else f"local[{-number}]" if number else ""
        (row,) = measure_kinds(rows, rounds, folder, {MIXED: _UPDATES}, spark)
    way = f"Spark, {number} workers of one core" if number else "the database"
    way = f"Spark, {spark}" if number < 0 else way
    kept = ("applied per s", "apply µs", "applied per CPU s", "Spark µs", "empty build, s")
    return {"applied by": way, **{key: row[key] for key in kept}}


def measure_kinds(
    rows: int,
    rounds: int,
    project: Path,
    kinds: dict[str, str | None] = KINDS,
    spark: str = "",
) -> Iterator[dict[str, object]]:
    """Yield a row of the table for each kind of change: medians of the rounds."""
    with Cluster(_SOURCE) as source, Cluster(_TARGET) as target:
        create(source)
        for place, (kind, statement) in enumerate(kinds.items()):
            if kind == "updates, covering index":
                columns = (*demo_source.DIMENSIONS, *(_OF_THE_DAY if project != ROOT else ()))
                demo_source.set_identity(source.dsn(), "covering", columns)
            slots = [f"apply_{place}_{number}" for number in range(rounds)]
            for slot in slots:
                prepare(source, target, slot, project)
                # Its rounds go on from here.
                workload.seed(environment(source, target, slot, project))
                decoding.make_slot(source, f"{slot}_alone")
            if statement is None or kind == MIXED:
                insert(source, rows if statement is None else rows // 2, 5_000)
            if statement is not None:
                ask(source.dsn(), statement)
            end = decoding.wal_end(source)
            found = [one_round(source, target, slot, end, rows, project, spark) for slot in slots]
            ((size,),) = ask(target.dsn(), _SIZE)
            yield _row(kind, rows, size, found)
            say(f"{kind}: done")


def prepare(source: Cluster, target: Cluster, slot: str, project: Path) -> None:
    """Make the slot that feeds the models, in place of the one that did; a model has one slot."""
    if ask(target.dsn(), "select to_regclass('cdc.registered_model')") != [(None,)]:
        ask(target.dsn(), "truncate cdc.model_watermark, cdc.installed_model")
        ask(target.dsn(), "drop schema if exists analytics cascade")
    workload.install(environment(source, target, slot, project))


def one_round(
    source: Cluster, target: Cluster, slot: str, end: str, rows: int, project: Path, spark: str
) -> Round:
    """Decode, stage and apply what the slot has, into a warehouse that holds nothing else."""
    clusters = {"source": source, "target": target}
    prepare(source, target, slot, project)
    settings = environment(source, target, slot, project)
    ask(target.dsn(), "truncate cdc.change_log")
    alone = decode(source, f"{slot}_alone", end)
    loader: list[str | Path] = [LOADER, "run", "--once"]
    staged, staged_idle = (run(loader, settings, clusters) for _ in range(2))
    ask(target.dsn(), "vacuum analyze cdc.change_log")
    apply: list[str | Path] = [*loader, "--build"]
    if spark:
        ask(target.dsn(), "update cdc.installed_model set engine = 'spark'")
        batch = ("--max-changes", str(rows // 2))
        job = ["spark/apply.py", "--once", *batch]
        apply = [BIN / "spark-submit", "--master", spark, *job]
    built, built_idle = (run(apply, settings, clusters) for _ in range(2))
    if (found := ask(target.dsn(), _CHECK, {"slot": slot})) != [(rows, 0, 0)]:
        raise RuntimeError(f"staged, rejected, models behind: {found[0]}, not ({rows}, 0, 0)")
    for name in (slot, f"{slot}_alone"):
        decoding.drop_slot(source, name)
    seconds = built.seconds - built_idle.seconds
    if spark:
        (*_, (changes, spent)) = re.findall(r": ([\d,]+) changes in ([\d.]+) s", built.output)
        seconds = rows * float(spent) / int(changes.replace(",", ""))
    return Round(
        decode=alone.servers["source"],
        loader=staged.program - staged_idle.program,
        copy=staged.servers["target"] - staged_idle.servers["target"],
        apply=built.servers["target"] - built_idle.servers["target"],
        empty_build=built_idle.servers["target"],
        empty_seconds=built_idle.seconds,
        seconds=seconds,
        spark=built.program if spark else 0.0,
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
        "Spark µs": micros(lambda each: each.spark),
        "empty build, s": median(each.empty_seconds for each in rounds),
        "empty build, server ms": median(each.empty_build for each in rounds) * 1e3,
    }


if __name__ == "__main__":
    report.main(
        __doc__,
        measure,
        rows=(200_000, "changes of each kind"),
        rounds=(3, "runs of each"),
        project=(".", "the dbt project with the models"),
        models=([], "with --workers: numbers of models of the same tables, in place of --project"),
        workers=([], "ways to apply: 0, -2 for local[2], or workers of a Spark cluster"),
    )
