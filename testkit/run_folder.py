"""What keeps a demo or a test run by itself: one temporary folder for all, and no settings else.

A run that ends removes it. However it ends, a guard then ends what it left running and removes what
is left: a process that waits for the folder's lock.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import signal
import sys
import tempfile
from pathlib import Path

_PREFIX = "waltally-run-"
_LOCK = "lock"


def make() -> Path:
    """Make the folder, hold its lock as long as this process lives, and let TMPDIR name it."""
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
    folder.chmod(0o755)  # else the user postgres could not reach its data in there
    # Locked before it has its name: without the lock another run would take this one for dead.
    made = os.open(folder / "lock.new", os.O_CREAT | os.O_RDWR)
    fcntl.flock(made, fcntl.LOCK_EX)
    (folder / "lock.new").rename(folder / _LOCK)
    # In a session of its own: Ctrl-C is not for it. Its TMPDIR is another, or it would end itself.
    os.posix_spawn(
        sys.executable,
        [sys.executable, "-I", __file__, str(folder)],
        os.environ,
        file_actions=[(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in range(3)],
        setsid=True,
    )
    os.environ["TMPDIR"] = str(folder)
    tempfile.tempdir = None  # it may know the former one
    return folder


def keep(folder: Path) -> None:
    """Let no later run remove the folder."""
    (folder / _LOCK).unlink()


def guard(folder: Path) -> None:
    """Wait until the run has ended; then end what it left running, and remove the folder."""
    with contextlib.suppress(FileNotFoundError):  # it has ended already
        held = os.open(folder / _LOCK, os.O_RDWR)
        fcntl.flock(held, fcntl.LOCK_EX)
        if (folder / _LOCK).exists() or not folder.exists():
            _end_processes(folder)
            shutil.rmtree(folder, ignore_errors=True)


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


if __name__ == "__main__":
    guard(Path(sys.argv[1]))
