"""What a driver under spark-submit has, and one of Spark Connect otherwise.

Only this uses SparkContext.
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
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from waltally.errors import SettingError
from waltally.settings import parse_conninfo
from waltally_jobs.common.errors import NoExecutor

# Adaptive execution merges small partitions; this only limits how large one can get.
SHUFFLE = {"spark.sql.shuffle.partitions": "64"}
_DEFAULTS = {
    **SHUFFLE,
    # ERROR would print a stack per attempt; our own sentence says what failed.
    "spark.log.level": "FATAL",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Noting the line of Python that made each expression takes most of the time of a small job.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    # Tasks carry the databases' logins, and large ones travel by way of files.
    "spark.io.encryption.enabled": "true",
}
"""`spark-submit --conf` overrides each of them."""


@contextlib.contextmanager
def started(work: str, timeout: float) -> Iterator[SparkSession]:
    """Yield the session.

    Raises SettingError for a password in Spark's properties, and NoExecutor.
    """
    # Executors run the same path, unless spark.pyspark.python or the variable names another.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    # SparkConf has the properties of spark-submit once Python has asked the JVM for something.
    SparkContext.getSystemProperty("java.version")
    conf = SparkConf()
    refuse_passwords(conf.getAll())
    for key, value in {"spark.app.name": f"waltally {work}", **_DEFAULTS}.items():
        conf.setIfMissing(key, value)
    logging.getLogger("DataFrameQueryContextLogger").setLevel(logging.CRITICAL)
    try:
        spark = SparkSession.builder.config(conf=conf).getOrCreate()
    except Py4JError as error:
        cause = str(getattr(error, "java_exception", error)).partition("\n")[0]
        raise NoExecutor(
            f"Spark did not start at {conf.get('spark.master')}: {cause[:200]}",
            "see that its master runs at this address and takes this job's properties",
        ) from None
    try:
        with watched(spark, timeout):
            yield spark
    finally:
        with contextlib.suppress(Py4JError, OSError):
            spark.stop()


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


_WATCH_SECONDS = 1.0


@contextlib.contextmanager
def watched(spark: SparkSession, seconds: float) -> Iterator[None]:
    """Within the block, cancel jobs of which no task has run for so many seconds: NoExecutor then.

    Without an executor Spark itself would wait for ever, and the source would hold the snapshot and
    its WAL meanwhile.
    """
    ended = threading.Event()
    context = spark.sparkContext

    def watch() -> None:
        seen = time.monotonic()
        while not ended.wait(_WATCH_SECONDS):
            with contextlib.suppress(Py4JError, OSError):  # Spark has died, which the job notices
                stages = _stages(context)
                if not stages or any(each.numActiveTasks for each in stages):
                    seen = time.monotonic()
                elif time.monotonic() - seen > seconds:
                    context.cancelAllJobs()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _stages(context: SparkContext) -> list[Any]:
    """Return the stages that run."""
    tracker = context.statusTracker()
    found = map(tracker.getStageInfo, tracker.getActiveStageIds())
    return [each for each in found if each is not None]


@contextlib.contextmanager
def tasks_done(spark: SparkSession, what: str) -> Iterator[Callable[[], int]]:
    """Name what Spark runs within the block; yield what says how many of its tasks are done."""
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        latest: list[Any] = []

        # Its client names the arguments.
        def note(*, stages: Iterable[Any] | None, **_: object) -> None:
            latest[:] = stages or ()

        handler: Any = note
        spark.registerProgressHandler(handler)
        try:
            yield lambda: sum(each.num_completed_tasks for each in latest)
        finally:
            spark.removeProgressHandler(handler)
        return
    context = spark.sparkContext

    def done() -> int:
        with contextlib.suppress(Py4JError, OSError):
            return sum(each.numCompletedTasks for each in _stages(context))
        return 0

    context.setJobDescription(what)
    try:
        yield done
    finally:
        with contextlib.suppress(Py4JError, OSError):
            context.setJobDescription("")


class SubmitterStderr(io.TextIOBase):
    """A text stream to the standard error that the caller of spark-submit sees.

    Spark joins that of Python with standard output; the JVM has the other.
    """

    def __init__(self, jvm: Any) -> None:
        self._err = jvm.java.lang.System.err

    def isatty(self) -> bool:
        """Return whether the JVM, which has started this process, writes to a terminal."""
        try:
            place = str(Path(f"/proc/{os.getppid()}/fd/2").readlink())
        except OSError:
            return False
        return place.startswith(("/dev/pts/", "/dev/tty"))

    def write(self, text: str) -> int:
        """Write by the JVM, or to our own when the JVM is gone."""
        try:
            self._err.print(text)
            self._err.flush()
        except (Py4JError, OSError):
            if sys.__stderr__ is not None:
                sys.__stderr__.write(text)
        return len(text)


def restore_stderr() -> None:
    """Under spark-submit, let sys.stderr write to the standard error that the caller sees."""
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        return
    sys.stderr = SubmitterStderr(launch_gateway().jvm)  # type: ignore[no-untyped-call]
