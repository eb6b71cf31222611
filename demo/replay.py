"""The delta rules once more, row by row in plain Python: what the tests hold the pipeline against.

Pure, and written without looking at the dbt models, so that both cannot be wrong alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

DIMENSIONS = ("service_id", "template_id", "notification_type", "notification_status")

Group = tuple[str, str, str, str]
"""Service, template, type and status of one row of the fact."""

Counts = dict[Group, tuple[int, int]]
"""Live and archived rows of each group; groups with (0, 0) are left out."""

_PARTS = {"notifications": 0, "notification_history": 1}
_LIVE, _ARCHIVED = 0, 1


def replay(changes: Iterable[Mapping[str, Any]], baseline: Counts | None = None) -> Counts:
    """Return the counts after these wal2json payloads, in their order, on top of the baseline.

    Begins, commits, other tables and unknown actions change nothing. An old row that lacks a
    dimension takes it from the new one; with no new one it is left out, as the pipeline rejects it.
    """
    totals = {group: list(counts) for group, counts in (baseline or {}).items()}
    for change in changes:
        part = _PARTS.get(change.get("table", ""))
        if part is None:
            continue
        if change["action"] == "T":
            for counts in totals.values():
                counts[part] = 0
            continue
        for group, sign in _images(change, part):
            totals.setdefault(group, [0, 0])[part] += sign
    return {
        group: (live, archived) for group, (live, archived) in totals.items() if live or archived
    }


def _images(change: Mapping[str, Any], part: int) -> Iterator[tuple[Group, int]]:
    """Yield the groups that the change touches, with +1 for its new and -1 for its old row."""
    new = {column["name"]: column["value"] for column in change.get("columns", ())}
    old = {column["name"]: column["value"] for column in change.get("identity", ())}
    action = change["action"]
    if action in ("I", "U"):
        # A large value that an update left alone is missing from the new row.
        yield from _counted(old | new, +1)
    if action == "U" or (action == "D" and part == _LIVE):
        yield from _counted(new | old, -1)


def _counted(row: Mapping[str, Any], sign: int) -> Iterator[tuple[Group, int]]:
    service, template, kind, status = (row.get(name) for name in DIMENSIONS)
    if None not in (service, template, kind, status):
        yield (str(service), str(template), str(kind), str(status)), sign
