"""What a driver under spark-submit has, and none of Spark Connect: a JVM, executors, a terminal.

This is the only module that uses SparkContext and the JVM.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from waltally.errors import SettingError
from waltally.settings import parse_conninfo
from waltally_jobs.common.errors import NoExecutor
from waltally_jobs.common.progress import print_status

_DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Noting the line of Python that made each expression takes most of the time of a small job.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    # Tasks carry the databases' logins, and large ones travel by way of files.
    "spark.io.encryption.enabled": "true",
}
"""`spark-submit --conf` overrides each of them."""


@contextlib.contextmanager
def started(work: str, timeout: float, more: Mapping[str, str]) -> Iterator[SparkSession]:
    """Yield the session once it has an executor, with `more` properties that --conf overrides.

    Raises SettingError for a password in Spark's properties, and NoExecutor.
    """
    # Executors run the same path, unless spark.pyspark.python or the variable names another.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    conf = SparkConf()
    refuse_passwords(conf.getAll())
    for key, value in {"spark.app.name": f"waltally {work}", **_DEFAULTS, **more}.items():
        conf.setIfMissing(key, value)
    SparkContext._ensure_initialized(conf=conf)
    _quiet_spark()
    try:
        spark = SparkSession.builder.config(conf=conf).getOrCreate()
    except Py4JError as error:
        cause = str(getattr(error, "java_exception", error)).partition("\n")[0]
        raise NoExecutor(
            f"Spark did not start at {conf.get('spark.master')}: {cause[:200]}",
            "see that its master runs at this address and takes this job's properties",
        ) from None
    path = list(sys.path)
    try:
        wait_for_executor(spark, timeout)
        with watched(spark, timeout):
            yield spark
    finally:
        _stop(spark)
        # Spark added the path of our code, which it deletes.
        sys.path[:] = path


def folder(spark: SparkSession) -> str:
    """Return the session's own folder for files that executors fetch."""
    return str(spark.sparkContext._temp_dir)


@contextlib.contextmanager
def planning(spark: SparkSession, code: Path) -> Iterator[None]:
    """Let a data source that is registered within the block find our code where it plans a stream.

    That process does not look where executors find it.
    """
    environment = spark.sparkContext.environment
    before = dict(environment)
    environment["PYTHONPATH"] = str(code)
    try:
        yield
    finally:
        environment.clear()
        environment.update(before)


def _stop(spark: SparkSession) -> None:
    """Stop the session, without the second that PySpark waits for its server of accumulators."""
    context = spark.sparkContext
    server = context._accumulatorServer
    context._accumulatorServer = None  # type: ignore[assignment]
    with contextlib.suppress(Py4JError, OSError):
        spark.stop()
    if server is not None:  # of another stop
        # Its thread polls once a second, and ends with the process.
        threading.Thread(target=server.shutdown, daemon=True).start()


_VARIABLE = re.compile(
    r"spark\.(?:executorEnv|yarn\.appMasterEnv|kubernetes\.driverEnv)\.(PGPASSWORD|LOADER_\w+_DSN)"
)
"""A property that sets an environment variable of the driver or of the executors."""


def refuse_passwords(properties: Iterable[tuple[str, str]]) -> None:
    """Raise SettingError where a property gives a variable that has a password.

    Command line, web UI and event log show properties.
    """
    for name, value in properties:
        variable = _VARIABLE.fullmatch(name)
        if variable is None:
            continue
        if variable[1] == "PGPASSWORD" or any(
            "password" in word for word in parse_conninfo(value, name)
        ):
            raise SettingError(
                f"{name} has a password, and Spark's properties show in its UI and command lines",
                "leave the property out, change the password, and give the driver a password file"
                " or a Kubernetes secret, as docs/spark.md says",
            )


_POLL_SECONDS = 0.2
_WATCH_SECONDS = 1.0
_NOTIFY_SECONDS = 5.0


def wait_for_executor(spark: SparkSession, seconds: float) -> None:
    """Return once an executor runs. Raises NoExecutor after so many seconds.

    Under dynamic allocation it returns at once, as executors come only when tasks wait for them.
    """
    context = spark.sparkContext
    is_dynamic = context.getConf().get("spark.dynamicAllocation.enabled") == "true"
    if _is_local(context) or is_dynamic:
        return
    begun = time.monotonic()
    notified = False
    while not _has_executor(context):
        waited = time.monotonic() - begun
        if waited > seconds:
            raise NoExecutor(
                f"the cluster at {context.master} started no executor within {seconds:.0f} s",
                "see in its UI whether workers have the cores and the memory that"
                " spark.executor.cores and spark.executor.memory ask for, or raise --timeout",
            )
        if waited > _NOTIFY_SECONDS and not notified:
            notified = True
            print_status(f"waiting for an executor of the cluster at {context.master}")
        time.sleep(_POLL_SECONDS)


@contextlib.contextmanager
def watched(spark: SparkSession, seconds: float) -> Iterator[None]:
    """Within the block, cancel jobs that have had no executor for so many seconds.

    Spark itself would wait for ever, and the source would hold the snapshot and its WAL meanwhile.
    The error of a cancelled job names NoExecutor.
    """
    context = spark.sparkContext
    if _is_local(context):
        yield
        return
    ended = threading.Event()
    thread = threading.Thread(target=_watch, args=(context, seconds, ended.wait), daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _watch(context: SparkContext, seconds: float, ended: Callable[[float], bool]) -> None:
    seen = time.monotonic()
    while not ended(_WATCH_SECONDS):
        with contextlib.suppress(Py4JError, OSError):  # Spark has died, which the job notices
            jobs = context.statusTracker().getActiveJobsIds()
            if not jobs or _has_executor(context):
                seen = time.monotonic()
            elif time.monotonic() - seen > seconds:
                why = f"NoExecutor: the cluster at {context.master} had none for {seconds:.0f} s"
                for job in jobs:
                    context._jsc.sc().cancelJob(job, why)


def _is_local(context: SparkContext) -> bool:
    return str(context.master).startswith("local")


def _has_executor(context: SparkContext) -> bool:
    # The driver is the first one in the map.
    return bool(context._jsc.sc().getExecutorMemoryStatus().size() > 1)


class SubmitterStderr(io.TextIOBase):
    """A text stream that writes through the JVM."""

    def __init__(self, jvm: Any) -> None:
        self._err = jvm.java.lang.System.err
        self._own = sys.__stderr__

    def write(self, text: str) -> int:
        """Write to the JVM's standard error, or to our own when the JVM is gone."""
        try:
            self._err.print(text)
            self._err.flush()
        except (Py4JError, OSError):
            if self._own is not None:
                self._own.write(text)
        return len(text)

    def isatty(self) -> bool:
        """Return whether spark-submit, the parent process, writes to a terminal."""
        return _is_terminal(2)


def _is_terminal(descriptor: int) -> bool:
    """Return whether the file of spark-submit, the parent process, is a terminal."""
    try:
        target = str(Path(f"/proc/{os.getppid()}/fd/{descriptor}").readlink())
    except OSError:
        return False
    return target.startswith(("/dev/pts/", "/dev/tty"))


def stdout_is_terminal() -> bool:
    """Return whether what we print goes to a terminal, also through spark-submit."""
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        return _is_terminal(1)
    return sys.stdout.isatty()


def restore_stderr() -> None:
    """Under spark-submit, let sys.stderr write to the standard error that the caller sees."""
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        return
    SparkContext._ensure_initialized()
    sys.stderr = SubmitterStderr(SparkContext._jvm)


def _quiet_spark() -> None:
    """Let the JVM, which must run, and PySpark log nothing below FATAL.

    ERROR would print a stack per attempt; our own sentence says what failed.
    `--conf spark.log.level` sets another level of the JVM.
    """
    assert SparkContext._jvm is not None
    log4j = SparkContext._jvm.org.apache.logging.log4j
    log4j.core.config.Configurator.setRootLevel(log4j.Level.FATAL)
    logging.getLogger("DataFrameQueryContextLogger").setLevel(logging.CRITICAL)
