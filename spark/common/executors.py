"""Waits for a cluster that has no room, before the source is asked to hold anything."""

from __future__ import annotations

import time

from pyspark.sql import SparkSession

from common.errors import NoExecutor
from common.progress import print_status

_POLL_SECONDS = 0.2
_NOTIFY_SECONDS = 5.0


def wait_for_one(spark: SparkSession, seconds: float) -> None:
    """Return once an executor runs. Raises NoExecutor after so many seconds.

    Under dynamic allocation it returns at once, as executors come only when tasks wait for them.
    """
    context = spark.sparkContext
    is_dynamic = context.getConf().get("spark.dynamicAllocation.enabled") == "true"
    if str(context.master).startswith("local") or is_dynamic:
        return
    begun = time.monotonic()
    notified = False
    # The driver is the first one in the map.
    while context._jsc.sc().getExecutorMemoryStatus().size() < 2:
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
