"""A loader in the background: start it, see that it follows, end it."""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from testkit.commands import wait_until
from testkit.databases import Database


@contextmanager
def following(database: Database, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A loader in the background that has begun to stream."""
    process = database.start_loader("run", *arguments)
    try:
        wait_until(lambda: is_followed(database) or process.poll() is not None, "it follows")
        assert process.poll() is None, process.communicate()
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def is_followed(database: Database) -> bool:
    return bool(
        database.value(
            "select count(*) from pg_replication_slots where slot_name = %s and active",
            database.slot,
        )
    )


def is_copying(database: Database) -> bool:
    return bool(
        database.value("select count(*) from pg_stat_progress_copy where tuples_processed > 1000")
    )


def end(process: subprocess.Popen[str]) -> str:
    """Stop the loader cleanly and return what it logged."""
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 0, said
    return said


def peak_memory(process: subprocess.Popen[str]) -> int:
    """Return the most memory the process has held so far, in KiB."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert found
    return int(found[1])
