"""Starts the Spark session, with little output and with our code, as a zip, on every executor.

The jobs use what DataFrames have both under spark-submit and over Spark Connect. What only a
driver under spark-submit has is in `common.submitted`.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import socket
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import cache_from_source
from pathlib import Path
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import loader
import waltally
from waltally.database import Connection
from waltally_jobs.common import submitted
from waltally_jobs.common.command import DEFAULT_TIMEOUT, Settings
from waltally_jobs.common.connections import TargetSession
from waltally_jobs.common.errors import NoExecutor, first_line

_OURS = ("waltally_jobs", "waltally_source")
"""Our packages beside each other."""
_OF_LOADER = ("findings", "source", "staging")
"""The layers of the loader that Spark's may import."""


@dataclass(frozen=True)
class Sessions:
    """What a seed or an audit works with: settings, a session at each place, and Spark's."""

    settings: Settings
    target: TargetSession
    source: Connection
    spark: SparkSession


_code: WeakKeyDictionary[SparkSession, Path] = WeakKeyDictionary()


def is_packed() -> bool:
    """Return whether this code runs from the zip, as by `spark-submit --py-files`."""
    return not Path(__file__).is_file()


def send_code(spark: SparkSession) -> Path:
    """Bring our code to every executor, unless it has come there packed; return the zip."""
    if is_packed():
        return Path(__file__).parents[2]
    if spark in _code:
        return _code[spark]
    # Executors read it there.
    home = tempfile.mkdtemp(prefix="waltally-")
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    code = Path(home, "waltally.zip")
    pack_code(code, compiled=True)
    spark.addArtifacts(str(code), pyfile=True)
    _code[spark] = code
    return code


def pack_code(archive: Path, *, compiled: bool = False) -> None:
    """Write the zip of all that the jobs and their tasks import, with the SQL beside the modules.

    A data source compares the functions of the staging schema with these files. `compiled` adds
    what Python has compiled, which names the places of this machine. Else each process of an
    executor compiles what it imports, twice.
    """
    beside, follower = Path(__file__).parents[2], Path(loader.__file__).parent
    homes = {
        Path(waltally.__file__).parent: Path("waltally"),
        **{beside / name: Path(name) for name in _OURS},
        **{follower / name: Path("loader", name) for name in _OF_LOADER},
    }
    with zipfile.ZipFile(archive, "w") as out:
        out.write(Path(loader.__file__), "loader/__init__.py")
        for home, name in homes.items():
            for file in sorted(home.rglob("*.sql")):
                out.write(file, name / file.relative_to(home))
            for file in sorted(home.rglob("*.py")):
                place, cached = name / file.relative_to(home), Path(cache_from_source(str(file)))
                out.write(file, place)
                if compiled and cached.exists():
                    out.write(cached, place.with_suffix(".pyc"))


def is_remote() -> bool:
    """Return whether the session is one of Spark Connect, which SPARK_REMOTE names."""
    return "SPARK_REMOTE" in os.environ


@contextlib.contextmanager
def running(work: str = "seed", timeout: float = DEFAULT_TIMEOUT) -> Iterator[SparkSession]:
    """Yield the session.

    What Spark is to do fails once its cluster has run no task for `timeout` seconds; over Spark
    Connect nobody can tell.
    Raises SettingError for a password in Spark's properties, and NoExecutor.
    """
    with _connected() if is_remote() else submitted.started(work, timeout) as spark:
        send_code(spark)
        yield spark


_PORT = 15002
"""Of Spark Connect, where the address names none."""
_RETRIES = 5
"""17 s in all. Its client would ask a server that has died for ten minutes, and a seed hold its
snapshot meanwhile."""


@contextlib.contextmanager
def _connected() -> Iterator[SparkSession]:
    """Yield a session of Spark Connect. Raises NoExecutor."""
    # The rest of the address may be a token.
    address = urlsplit(os.environ["SPARK_REMOTE"])
    place = f"{address.hostname}:{address.port or _PORT}"
    try:
        # Its client would try again for minutes.
        socket.create_connection((address.hostname or "", address.port or _PORT), 10).close()
        from pyspark.sql.connect.client.retries import DefaultPolicy

        spark = SparkSession.builder.getOrCreate()
        spark.client.set_retry_policies([DefaultPolicy(_RETRIES)])
        for key, value in submitted.SHUFFLE.items():
            spark.conf.set(key, value)
    except (PySparkException, ImportError, OSError) as error:
        raise NoExecutor(
            f"no session of Spark Connect at {place}: {first_line(error)}",
            "see that the server runs there, and that pip install 'waltally[connect]' has brought"
            " what its client needs",
        ) from None
    try:
        yield spark
    finally:
        with contextlib.suppress(PySparkException):
            spark.stop()
