"""The delta rules in plain Python: what the tests hold dbt's models and Spark's jobs against.

Written from the documented rules alone, so that the three cannot share a mistake. It judges
wal2json changes one by one in their order. `demo/recount.py` is the other judge: it counts the
source's rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

Change = Mapping[str, Any] | str
"""One wal2json change; text is something that is no change."""

Transaction = list[Change]
Group = tuple[str, ...]
"""Service, template, type and status."""

DIMENSIONS = ("service_id", "template_id", "notification_type", "notification_status")
LONGEST_BYTES = 1000
"""A longer value of a text dimension is rejected."""
LONGEST_TOGETHER = 1800
"""So are texts that are longer than this together."""

_PARTS = {"notifications": "live", "notification_history": "archived"}
_BOUNDARIES = ("B", "C", "M")

_Image = dict[str, str | None]
"""The dimensions of a row, old or new."""


@dataclass
class Outcome:
    """The rows of each group, and the changes that cannot be counted."""

    live: Counter[Group] = field(default_factory=Counter)
    archived: Counter[Group] = field(default_factory=Counter)
    rejected: list[tuple[int, int]] = field(default_factory=list)
    """Number of the transaction from 0, number of the change in it from 1."""
    purged: Counter[Group] = field(default_factory=Counter)
    """Archived rows that were deleted and stay counted."""

    def add(self, change: Change) -> bool:
        """Count the change; return False where it is rejected."""
        if isinstance(change, str):
            return False
        if change["action"] in _BOUNDARIES or change["table"] not in _PARTS:
            return True
        part = _PARTS[change["table"]]
        counts: Counter[Group] = getattr(self, part)
        if change["action"] == "T":
            counts.clear()
            if part == "archived":
                self.purged.clear()
            return True
        if change["action"] != "I" and "identity" not in change:
            return False
        moves = _moves(change)
        if not all(_is_countable(image) for image, _ in moves):
            return False
        is_purge = change["action"] == "D" and part == "archived"
        for image, sign in moves:
            if is_purge:
                self.purged[_group(image)] += 1
            else:
                counts[_group(image)] += sign
        return True


def outcome(history: Iterable[Iterable[Change]]) -> Outcome:
    """Return what these transactions come to, from nothing."""
    result = Outcome()
    for number, transaction in enumerate(history):
        for ordinal, change in enumerate(transaction, 1):
            if not result.add(change):
                result.rejected.append((number, ordinal))
    return result


def replay(
    changes: Iterable[Change], baseline: Mapping[Any, tuple[int, int]] | None = None
) -> dict[Group, tuple[int, int]]:
    """Return (live, archived) of each group that has rows, after the changes on the baseline.

    Raises AssertionError where a change is rejected.
    """
    result = Outcome()
    for group, (live, archived) in (baseline or {}).items():
        result.live[group], result.archived[group] = live, archived
    for change in changes:
        assert result.add(change), f"the oracle rejects {change}"
    counts = {
        group: (result.live[group], result.archived[group])
        for group in result.live.keys() | result.archived.keys()
    }
    return {group: rows for group, rows in counts.items() if any(rows)}


def _moves(change: Mapping[str, Any]) -> list[tuple[_Image, int]]:
    """Return the new row with +1 and the old row with -1, where they belong to a group."""
    action = change["action"]
    new, old = _image(change.get("columns", ())), _image(change.get("identity", ()))
    if action == "U":
        # A large value that an update left alone is missing from the new row.
        new = old | new
        if old == new and len(old) == len(DIMENSIONS):
            return []
    moves = [(new, 1)] if action in "IU" else []
    moves += [(old, -1)] if action in "UD" else []
    return [(image, sign) for image, sign in moves if None not in image.values()]


def _image(columns: Iterable[Mapping[str, Any]]) -> _Image:
    return {each["name"]: each["value"] for each in columns if each["name"] in DIMENSIONS}


def _is_countable(image: _Image) -> bool:
    known = {name: value for name, value in image.items() if value is not None}
    sizes = [len(value.encode()) for name, value in known.items() if not name.endswith("_id")]
    return (
        len(image) == len(DIMENSIONS)
        and all(_is_uuid(value) for name, value in known.items() if name.endswith("_id"))
        and all(size <= LONGEST_BYTES for size in sizes)
        and sum(sizes) <= LONGEST_TOGETHER
    )


def _is_uuid(value: str) -> bool:
    try:
        UUID(value)
    except ValueError:
        return False
    return True


def _group(image: _Image) -> Group:
    return tuple(
        str(image[name]).lower() if name.endswith("_id") else str(image[name])
        for name in DIMENSIONS
    )
