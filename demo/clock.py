"""Times at which a calendar day is easily counted wrong."""

from __future__ import annotations

from datetime import datetime, timedelta
from random import Random

# Each begins two days: with Europe's changes of clock at 01:00 UTC, a new year, a leap day.
_STARTS = (
    datetime(2026, 3, 28),
    datetime(2026, 10, 24),
    datetime(2025, 12, 31),
    datetime(2024, 2, 28),
)
_EDGES = (22, 23, 24, 25, 26)
"""Hours from such a start at which some day of Europe begins or a clock changes."""


def awkward_time(rng: Random) -> datetime:
    """Return a time in UTC, to the microsecond: near a change of clock, a midnight or on one."""
    start = rng.choice(_STARTS)
    if rng.random() < 0.3:
        edge = start + timedelta(hours=rng.choice(_EDGES))
        return edge - timedelta(microseconds=rng.choice((0, 0, 1)))
    return start + timedelta(microseconds=rng.randrange(48 * 3600 * 1_000_000))
