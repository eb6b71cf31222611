"""Ends a job that its cluster has no executor for, before and while the source holds something."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import SparkContext
from pyspark.sql import SparkSession

from common.errors import NoExecutor
from common.progress import print_status

_POLL_SECONDS = 0.2
_WATCH_SECONDS = 1.0
_NOTIFY_SECONDS = 5.0


def wait_for_one(spark: SparkSession, seconds: float) -> None:
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
