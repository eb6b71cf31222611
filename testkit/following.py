"""What a loader in the background does, as server and system see it."""

from __future__ import annotations

import re
from pathlib import Path

from testkit.commands import RunningLoader
from testkit.databases import Database


def is_followed(database: Database) -> bool:
    active = "select 1 from pg_replication_slots where slot_name = %s and active"
    return database.execute(active, database.slot) != []


def is_copying(database: Database) -> bool:
    copying = "select 1 from pg_stat_progress_copy where tuples_processed > 1000"
    return database.execute(copying) != []


def peak_memory(loader: RunningLoader) -> int:
    """Return the most memory its process has held so far, in KiB."""
    return memory(loader.process.pid)


def memory(process: int, name: str = "VmHWM") -> int:
    """Return the most memory that a process has held so far, or another figure, in KiB."""
    found = re.search(rf"{name}:\s+(\d+) kB", Path(f"/proc/{process}/status").read_text())
    assert found
    return int(found[1])
