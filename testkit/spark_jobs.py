"""Spark's jobs in this process: the JVM starts once per test process, not once per job."""

from __future__ import annotations

import atexit
import functools
import os
import shlex
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark
import pytest
from py4j.java_gateway import JavaClass, JavaPackage, JVMView  # type: ignore[import-untyped]
from pyspark import SparkConf
from pyspark.sql import SparkSession
from typer.testing import CliRunner
from waltally_jobs.applying import job as applying
from waltally_jobs.auditing import job as auditing
from waltally_jobs.common import session
from waltally_jobs.history import job as history
from waltally_jobs.seeding import job as seeding

from testkit.commands import only_environment
from testkit.spark_java import OPTIONS
from waltally.errors import LoaderError

IN_PROCESS = {
    # Else PySpark sends rows through sockets that it never closes.
    "spark.io.encryption.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",
    # A third of the time of small jobs goes into the text of their plans, which nobody reads.
    "spark.sql.ui.explainMode": "simple",
    "spark.sql.debug.maxToStringFields": "0",
}
"""What sessions of this process have beside the jobs' own settings."""
if "WALTALLY_ALL_CASES" not in os.environ:
    # To compile a stage takes seconds, and to interpret it for some rows takes none. What
    # spark-submit starts compiles, and so do the jobs of `make acceptance`.
    IN_PROCESS |= {
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    }

APPS = {
    "spark/seed.py": seeding.app,
    "spark/apply.py": applying.app,
    "spark/audit.py": auditing.app,
    "spark/history.py": history.app,
}


_running = session.running

for _kind in (JVMView, JavaPackage, JavaClass):
    # py4j would ask for a class and its method again with each column of a plan, and the JVM would
    # look for it in all jars of Spark.
    _kind.__getattr__ = functools.cache(_kind.__getattr__)


def _without_zip() -> Path:
    """Return a folder of Spark without the zip of pyspark: the environment has it compiled.

    ops/spark-submit unsets SPARK_HOME for this; PySpark's own launcher needs a folder.
    """
    spark, home = Path(pyspark.__file__).parent, Path(tempfile.mkdtemp(prefix="spark-"))
    for name in ("bin", "jars"):
        (home / name).symlink_to(spark / name)
    return home


@functools.cache
def shared_session() -> SparkSession:
    """Return the session of all jobs in this process, as they have it, but small.

    It starts when the first job asks for it, which takes seconds: jobs of few rows need none.
    """
    start = {
        "PYSPARK_SUBMIT_ARGS": f"--driver-java-options '{OPTIONS}' pyspark-shell",
        "SPARK_HOME": str(_without_zip()),
    }
    own = {
        **IN_PROCESS,
        "spark.master": "local[2]",
        "spark.ui.enabled": "false",
        "spark.log.level": "FATAL",
        "spark.python.sql.dataFrameDebugging.enabled": "false",
    }
    # Nothing in it leads to a database of the test that happens to be the first.
    here = {n: v for n, v in os.environ.items() if not n.startswith(("PG", "LOADER_", "DBT_"))}
    kept = ExitStack()
    atexit.register(kept.close)
    with only_environment({**start, **here, "PYSPARK_PYTHON": sys.executable}):
        SparkSession.builder.config(conf=SparkConf().setAll(list(own.items()))).getOrCreate()
        return kept.enter_context(_running("test"))


@contextmanager
def running(work: str = "seed", timeout: float = 0) -> Iterator[SparkSession]:
    """Yield the shared session to a job."""
    yield shared_session()
    shared_session().catalog.clearCache()


def run_job(command: str, environment: Mapping[str, str]) -> str:
    """Run a job as `spark-submit JOB FLAGS` is printed; return its output. Raises what it reports.

    All jobs of this process have one session.
    """
    program, job, *flags = shlex.split(command)
    assert program == "spark-submit", command
    with only_environment(environment), pytest.MonkeyPatch.context() as patch:
        patch.setattr(session, "running", running)
        done = CliRunner().invoke(APPS[job], flags)
    if isinstance(done.exception, LoaderError):
        raise done.exception
    assert done.exit_code == 0, f"{done.output}\n{done.exception!r}"
    return done.output
