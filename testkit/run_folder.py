"""What keeps a demo or a test run by itself: one temporary folder for all, and no settings else.

A run that ends removes it. After a SIGKILL the next run does: a folder whose lock nobody holds.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import signal
import tempfile
from pathlib import Path

_PREFIX = "waltally-run-"
_LOCK = "lock"


def make() -> Path:
    """Make the folder, hold its lock as long as this process lives, and let TMPDIR name it."""
    remove_dead()
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
    folder.chmod(0o755)  # else the user postgres could not reach its data in there
    # Locked before it has its name: without the lock another run would take this one for dead.
    made = os.open(folder / "lock.new", os.O_CREAT | os.O_RDWR)
    fcntl.flock(made, fcntl.LOCK_EX)
    (folder / "lock.new").rename(folder / _LOCK)
    os.environ["TMPDIR"] = str(folder)
    tempfile.tempdir = None  # it may know the former one
    return folder


def keep(folder: Path) -> None:
    """Let no later run remove the folder."""
    (folder / _LOCK).unlink()


def remove_dead() -> None:
    """Remove the folders of runs that were killed, and end what these left running."""
    for lock in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*/{_LOCK}"):
        with contextlib.suppress(OSError):  # of another user, or removed by another run
            held = os.open(lock, os.O_RDWR)
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _end_processes(lock.parent)
                shutil.rmtree(lock.parent, ignore_errors=True)
            finally:
                os.close(held)


def _end_processes(folder: Path) -> None:
    """Kill every process whose TMPDIR is in the folder: only that run and its children have it."""
    inside = re.compile(rf"^TMPDIR={re.escape(str(folder))}(/|$)")
    for environment in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):  # it has just ended, or is another user's
            if any(map(inside.match, environment.read_text(errors="replace").split("\0"))):
                os.kill(int(environment.parent.name), signal.SIGKILL)


_SETTINGS = ("PG", "LOADER_", "DBT_", "SPARK_", "PYSPARK_", "HADOOP_", "YARN_")
"""How the names of their variables begin."""
_CHOICES = frozenset({"PG", "PG_BIN", "PG_ROOT"})
"""What ops/find-postgres reads: which server to start."""


def forget_settings() -> None:
    """Remove from this process's environment what would lead it elsewhere.

    A PGSERVICE, PGHOSTADDR or PGSSLMODE counts even for a session that names its host, and another
    SPARK_HOME or PYSPARK_DRIVER_PYTHON even for our spark-submit.
    """
    for name in list(os.environ):
        if name.startswith(_SETTINGS) and name not in _CHOICES:
            del os.environ[name]
