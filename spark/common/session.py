"""Starts the Spark session, with little output and with our code, as a zip, on every executor."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import threading
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator
from importlib.util import cache_from_source
from pathlib import Path

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

import loader
import waltally
from common.command import DEFAULT_TIMEOUT, quiet_spark
from common.errors import NoExecutor
from common.progress import print_status
from waltally.errors import SettingError
from waltally.settings import parse_conninfo

_OURS = (
    *("applying", "archiving", "auditing", "common", "counting", "deltas", "reading"),
    *("replaying", "rules", "seeding"),
    *("waltally_source", "warehouse"),
)
"""The packages beside `common`."""
_OF_LOADER = ("source", "staging")
"""The layers of the loader that Spark's may import."""


def is_packed() -> bool:
    """Return whether this code runs from the zip, as by `spark-submit --py-files`."""
    return not Path(__file__).is_file()


def send_code(spark: SparkSession) -> Path:
    """Bring our code to every executor, unless it has come there packed; return the zip."""
    if is_packed():
        return Path(__file__).parents[1]
    # Java deletes this folder also where a signal ends the job, and Python could not.
    code = Path(spark.sparkContext._temp_dir) / "waltally.zip"
    if not code.exists():
        pack_code(code, compiled=True)
        spark.sparkContext.addPyFile(str(code))
    return code


def pack_code(archive: Path, *, compiled: bool = False) -> None:
    """Write the zip of all modules that the jobs and their tasks import.

    `compiled` adds what Python has compiled, which names the places of this machine. Else each
    process of an executor compiles what it imports, twice.
    """
    beside, follower = Path(__file__).parents[1], Path(loader.__file__).parent
    homes = {
        Path(waltally.__file__).parent: Path("waltally"),
        **{beside / name: Path(name) for name in _OURS},
        **{follower / name: Path("loader", name) for name in _OF_LOADER},
    }
    with zipfile.ZipFile(archive, "w") as out:
        out.write(Path(loader.__file__), "loader/__init__.py")
        for home, name in homes.items():
            for file in sorted(home.rglob("*.py")):
                place, cached = name / file.relative_to(home), Path(cache_from_source(str(file)))
                out.write(file, place)
                if compiled and cached.exists():
                    out.write(cached, place.with_suffix(".pyc"))


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
    """Yield the session once it has an executor; stop it at the end, also where Spark has died.

    What Spark is to do fails once its cluster has had no executor for `timeout` seconds.
    Raises SettingError for a password in Spark's properties, and NoExecutor.
    """
    # Executors run the same path, unless spark.pyspark.python or the variable names another.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    conf = SparkConf()
    refuse_passwords(conf.getAll())
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
    send_code(spark)
    try:
        wait_for_executor(spark, timeout)
        with watched(spark, timeout):
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
