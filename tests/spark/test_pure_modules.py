"""What is called pure in spark/ imports no database driver."""

from __future__ import annotations

import subprocess
import sys

from tests.spark.support import ROOT

PURE = (
    "archiving.manifests",
    "auditing.comparing",
    "auditing.evaluation",
    "auditing.report",
    "common.errors",
    "common.progress",
    "counting.counts",
    "counting.ranges",
    "counting.values",
    "counting.visibility",
    "deltas.current_rows",
    "deltas.rules",
    "replaying.replayed_fact",
    "replaying.result",
    "warehouse.rejected",
)


def test_pure_modules_import_no_driver_and_start_no_session() -> None:
    program = (
        f"import sys; sys.path[:0] = [{str(ROOT)!r}, {str(ROOT / 'spark')!r}]\n"
        f"import {', '.join(PURE)}\n"
        "from pyspark import SparkContext\n"
        "assert SparkContext._active_spark_context is None\n"
        "found = {'psycopg', 'psycopg2', 'adbc_driver_postgresql'} & set(sys.modules)\n"
        "assert not found, found"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
