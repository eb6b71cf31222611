"""Clients of an application that write notifications, played by PostgreSQL's own pgbench."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

from testkit.servers import BIN

_THREADS = 2
_PROCESSED = re.compile(r"number of transactions actually processed: (\d+)")
_FAILED = re.compile(r"number of failed transactions: (\d+)")
_RATE = re.compile(r"tps = ([0-9.]+)")


class Written(NamedTuple):
    """What one run of the clients did."""

    writes: int
    per_second: float


def write(
    dsn: str,
    script: str,
    *,
    seed: int,
    clients: int = 2,
    seconds: int | None = None,
    writes: int = 0,
    awaits_commit: bool = True,
    **variables: int,
) -> Written:
    """Run the script for so many seconds or so many writes, as fast as it goes.

    The same seed gives the same writes; `awaits_commit` false goes on before a commit is on disk.
    Raises RuntimeError where a transaction fails, a deadlock too, or pgbench is missing.
    """
    program = BIN / "pgbench"
    if not program.exists():
        raise RuntimeError(f"there is no {program}: it belongs to the server's package")
    commit = "on" if awaits_commit else "off"
    with tempfile.TemporaryDirectory(prefix="waltally-pgbench-") as home:
        file = Path(home, "script.sql")
        file.write_text(script)
        done = subprocess.run(
            [
                str(program),
                "--no-vacuum",
                "--protocol=prepared",
                f"--client={clients}",
                f"--jobs={min(clients, _THREADS)}",
                f"--time={seconds}" if seconds else f"--transactions={writes // clients}",
                f"--random-seed={seed}",
                *(f"--define={name}={value}" for name, value in variables.items()),
                f"--file={file}",
                dsn,
            ],
            env={**os.environ, "PGOPTIONS": f"-c synchronous_commit={commit}"},
            capture_output=True,
            text=True,
        )
    if done.returncode:
        raise RuntimeError(f"pgbench failed with {done.returncode}:\n{done.stderr}")
    processed, failed, rate = (
        found[1] if (found := pattern.search(done.stdout)) else None
        for pattern in (_PROCESSED, _FAILED, _RATE)
    )
    if processed is None or rate is None or failed != "0":
        raise RuntimeError(f"not every write succeeded:\n{done.stdout}{done.stderr}")
    return Written(int(processed), float(rate))
