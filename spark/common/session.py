"""Starts the Spark session, with little output and with our packages on every executor."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import SparkConf
from pyspark.sql import SparkSession

import waltally

_TASK_PACKAGES = ("common", "counting", "deltas", "seeding")
"""Which of Spark's packages tasks import, besides waltally; they do not import the loader."""

DEFAULTS = {
    # ERROR would print a Java stack per attempt; our own sentence says what failed.
    "spark.log.level": "FATAL",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Adaptive execution merges small partitions; this only limits how large one can get.
    "spark.sql.shuffle.partitions": "64",
    # Noting the line of Python that made each expression takes most of the time of a small job.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
}
"""`spark-submit --conf` overrides each of them."""

PINNED = {
    # In another time zone Spark would print the times of an export otherwise than the stream.
    "spark.sql.session.timeZone": "UTC",
    # Without it an overflow is null, and a small decimal is printed with an exponent.
    "spark.sql.ansi.enabled": "true",
}
"""What the numbers depend on; nothing overrides it."""


@contextlib.contextmanager
def running(work: str = "seed") -> Iterator[SparkSession]:
    """Yield the session and stop it at the end, also where Spark has died."""
    # For local executors. On a cluster, the cluster's own setting applies.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    conf = SparkConf()
    for key, value in {"spark.app.name": f"waltally {work}", **DEFAULTS}.items():
        conf.setIfMissing(key, value)
    spark = SparkSession.builder.config(conf=conf).getOrCreate()
    for key, value in PINNED.items():
        spark.conf.set(key, value)
    path = list(sys.path)
    with tempfile.TemporaryDirectory(prefix="waltally-seed-") as folder:
        spark.sparkContext.addPyFile(str(package(Path(folder))))
        try:
            yield spark
        finally:
            with contextlib.suppress(Py4JError, OSError):
                spark.stop()
            # Spark added the path of the zip, which is deleted now.
            sys.path[:] = path


def package(folder: Path) -> Path:
    """Write a zip of what executors import: they may be on another machine."""
    archive = folder / "waltally.zip"
    own = Path(__file__).parents[1]
    homes = [Path(waltally.__file__).parent, *(own / name for name in _TASK_PACKAGES)]
    with zipfile.ZipFile(archive, "w") as out:
        for home in homes:
            for file in sorted(home.rglob("*.py")):
                out.write(file, file.relative_to(home.parent))
    return archive
