"""Spark's jobs in this process: the JVM starts once per test process, not once per job."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from contextlib import nullcontext

import applying.job
import archiving.job
import auditing.job
import pytest
import replaying.job
import seeding.job
from common import session
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from testkit.commands import only_environment
from tests.spark.support import FAST_START, IN_PROCESS
from waltally.errors import LoaderError

OPTIONS = (
    *("--master", "local[2]", "--driver-java-options", FAST_START),
    *(word for item in IN_PROCESS.items() for word in ("--conf", "=".join(item))),
)
"""What a session of this process starts with: few rows, and no warning of PySpark's own."""


_JOBS = {
    "spark/seed.py": seeding.job.app,
    "spark/apply.py": applying.job.app,
    "spark/audit.py": auditing.job.app,
    "spark/archive.py": archiving.job.app,
    "spark/replay.py": replaying.job.app,
}


def run_job(command: str, environment: Mapping[str, str]) -> str:
    """Run a job as `spark-submit JOB FLAGS` is printed; return its output. Raises what it reports.

    A session that other tests of this process have started is used, and goes on.
    """
    program, job, *flags = shlex.split(command)
    assert program == "spark-submit", command
    spark = {
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_SUBMIT_ARGS": shlex.join([*OPTIONS, "pyspark-shell"]),
    }
    with only_environment({**environment, **spark}), pytest.MonkeyPatch.context() as patch:
        if (shared := SparkSession.getActiveSession()) is not None:
            patch.setattr(session, "running", lambda work="seed", timeout=0: nullcontext(shared))
        done = CliRunner().invoke(_JOBS[job], flags)
    if isinstance(done.exception, LoaderError):
        raise done.exception
    assert done.exit_code == 0, f"{done.output}\n{done.exception!r}"
    return done.output
