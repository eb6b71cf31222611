"""Spark's jobs in this process: the JVM starts once per test process, not once per job."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping

import auditing.cli
import seeding.cli
from typer.testing import CliRunner

from tests.support.commands import only_environment
from waltally.errors import LoaderError

OPTIONS = (
    *("--master", "local[2]", "--conf", "spark.sql.shuffle.partitions=2"),
    *("--driver-java-options", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"),
)
"""What makes Spark fast where there are few rows."""


_JOBS = {"spark/seed.py": seeding.cli.app, "spark/audit.py": auditing.cli.app}


def run_job(command: str, environment: Mapping[str, str]) -> None:
    """Run a job as `spark-submit JOB FLAGS` is printed. Raises what the job reports."""
    program, job, *flags = command.split()
    assert program == "spark-submit", command
    spark = {
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_SUBMIT_ARGS": shlex.join([*OPTIONS, "pyspark-shell"]),
    }
    with only_environment({**environment, **spark}):
        done = CliRunner().invoke(_JOBS[job], flags)
    if isinstance(done.exception, LoaderError):
        raise done.exception
    assert done.exit_code == 0, f"{done.output}\n{done.exception!r}"
