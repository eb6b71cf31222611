"""Starts the Spark session, with little output and with our packages on every executor."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Iterator

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from common import bundle, executors, shown_passwords
from common.console import quiet_spark
from common.errors import NoExecutor
from common.progress import print_status
from common.settings import DEFAULT_TIMEOUT

DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Adaptive execution merges small partitions; this only limits how large one can get.
    "spark.sql.shuffle.partitions": "64",
    # Else one task reads all tables that are a single range, one after another.
    "spark.sql.unionOutputPartitioning": "false",
    # Noting the line of Python that made each expression takes most of the time of a small job.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    # Tasks carry the databases' logins, and large ones travel by way of files.
    "spark.io.encryption.enabled": "true",
}
"""`spark-submit --conf` overrides each of them."""

FOR_FEW_ROWS = {
    "spark.sql.shuffle.partitions": "2",
    # Planning each stage again costs more than a few rows do. Compiling stages pays even then: in
    # interpreted expressions each row parses its JSON many times.
    "spark.sql.adaptive.enabled": "false",
}
"""What makes small jobs fast and large ones slow; `spark-submit --conf` overrides each."""

FEW_ROWS = 100_000
"""Up to here starting a stage costs more than its rows do."""

PINNED = {
    # In another time zone Spark would print times otherwise than the stream does.
    "spark.sql.session.timeZone": "UTC",
    # Without it an overflow is null, and a small decimal is printed with an exponent.
    "spark.sql.ansi.enabled": "true",
}
"""What the numbers depend on; nothing overrides it."""


@contextlib.contextmanager
def running(work: str = "seed", timeout: float = DEFAULT_TIMEOUT) -> Iterator[SparkSession]:
    """Yield the session and stop it at the end, also where Spark has died.

    What Spark is to do fails once its cluster has had no executor for `timeout` seconds.
    Raises SettingError for a password in Spark's properties, and NoExecutor.
    """
    # Executors run the same path, unless spark.pyspark.python or the variable names another.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    conf = SparkConf()
    shown_passwords.refuse(conf.getAll())
    for key, value in {"spark.app.name": f"waltally {work}", **DEFAULTS}.items():
        conf.setIfMissing(key, value)
    if sys.stderr.isatty():
        print_status("starting Spark")
    SparkContext._ensure_initialized(conf=conf)
    quiet_spark()
    try:
        spark = SparkSession.builder.config(conf=conf).getOrCreate()
    except Py4JError as error:
        cause = str(getattr(error, "java_exception", error)).partition("\n")[0]
        raise NoExecutor(
            f"Spark did not start at {conf.get('spark.master')}: {cause[:200]}",
            "see that its master runs at this address and takes this job's properties",
        ) from None
    for key, value in PINNED.items():
        spark.conf.set(key, value)
    path = list(sys.path)
    bundle.send(spark)
    try:
        with executors.watched(spark, timeout):
            yield spark
    finally:
        stop(spark)
        # Spark added the path of the zip, which it deletes.
        sys.path[:] = path


@contextlib.contextmanager
def fitted(spark: SparkSession, row_count: int) -> Iterator[None]:
    """Within the block, let Spark plan for about so many rows."""
    given = spark.sparkContext.getConf()
    chosen = {
        key: value
        for key, value in FOR_FEW_ROWS.items()
        if row_count <= FEW_ROWS and given.get(key) in (None, DEFAULTS.get(key))
    }
    before = {key: str(spark.conf.get(key)) for key in chosen}
    for key, value in chosen.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        with contextlib.suppress(Py4JError, OSError):
            for key, was in before.items():
                spark.conf.set(key, was)


def stop(spark: SparkSession) -> None:
    """Stop the session, without the second that PySpark waits for its server of accumulators."""
    context = spark.sparkContext
    server = context._accumulatorServer
    context._accumulatorServer = None  # type: ignore[assignment]
    with contextlib.suppress(Py4JError, OSError):
        spark.stop()
    if server is not None:  # of another stop
        # Its thread polls once a second, and ends with the process.
        threading.Thread(target=server.shutdown, daemon=True).start()
