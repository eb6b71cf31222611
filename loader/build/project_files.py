"""Whether the files of a dbt project are still those that were parsed. Pure but for `stat`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

Stamps = dict[Path, tuple[int, int] | None]


def stamp(paths: Iterable[Path]) -> Stamps:
    """Return time of change in ns and size of each file or folder; None where it is not there.

    A folder's time of change tells that a file was added.
    """
    return {path: _stamp(path) for path in paths}


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


def differ(stamps: Stamps) -> bool:
    """Say whether a file has changed, gone or come since it was stamped."""
    return any(_stamp(path) != known for path, known in stamps.items())
