"""A model that is computed from an archive in Parquet alone: `spark/replay.py`.

python -m benchmarks.rebuild --rows 5000000 --master local[2]

So many inserts of 1 KB of JSON are staged and archived, which is not measured. The replay then
computes the shipped model and writes it as Parquet. Its own seconds are from its first line to
its last; the whole command starts Spark too. Checked: the model counts every insert.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator

from benchmarks import report
from benchmarks.measure import run, say
from benchmarks.workload import BIN, LOADER, create, environment, insert, set_up
from testkit.servers import Cluster

SLOT = "rebuild"
GOALS = {"changes/s": 80_000}
_SERVER = {"max_wal_size": "'16GB'", "shared_buffers": "'1GB'"}


def measure(rows: int, master: str) -> Iterator[report.Table]:
    """Archive the inserts and compute the model. Raises RuntimeError where it is wrong."""
    with (
        Cluster(_SERVER) as source,
        Cluster(_SERVER) as target,
        tempfile.TemporaryDirectory() as home,
    ):
        create(source)
        set_up(source, target, SLOT)
        settings = environment(source, target, SLOT)
        insert(source, rows, 5_000)
        run([LOADER, "run", "--once"], settings, {})
        submit = [str(BIN / "spark-submit"), "--master", master]
        run([*submit, "spark/archive.py", "--to", f"{home}/archive"], settings, {})
        say(f"{rows:,} changes are archived")
        replay = ["spark/replay.py", "--from", f"{home}/archive", "--to", f"{home}/model", "--json"]
        cost = run([*submit, *replay], settings, {})
        said = json.loads(cost.output.splitlines()[-1])
        (model,) = said["models"].values()
        if model["totals"]["live_count"] != str(rows):
            raise RuntimeError(f"the model counts {model['totals']}, not {rows}")
        found = {
            "changes": rows,
            "replay, s": said["seconds"],
            "changes/s": rows / said["seconds"],
            "whole command, s": cost.seconds,
            "Spark µs a change": cost.program / rows * 1e6,
        }
        yield report.Table("rebuild", [found], {"goals": GOALS})


if __name__ == "__main__":
    report.main(
        __doc__,
        measure,
        rows=(5_000_000, "changes of the archive"),
        master=("local[2]", "where Spark runs"),
    )
