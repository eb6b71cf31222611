"""How old the content of a model may be, and the words for it. Pure.

`cdc.exact_as_of` gives the age; pages, `loader stats`, `loader status` and the demo judge it alike.
"""

from __future__ import annotations

from typing import Literal

from waltally.units import duration

RECENT_SECONDS = 10.0
"""Up to this age a model is fresh; after it, late."""

MAX_LAG_SECONDS = 300.0
"""An older model is stale, which is not healthy: the default of `--max-lag-seconds`."""

Freshness = Literal["fresh", "late", "stale"]


def judge(seconds: float | None) -> Freshness:
    """Return how fresh a model is that is exact as of so many seconds ago; None is stale."""
    if seconds is None or seconds > MAX_LAG_SECONDS:
        return "stale"
    return "fresh" if seconds <= RECENT_SECONDS else "late"


def say(seconds: float | None) -> str:
    """Return how old it is, such as `as of 0.2 s ago`."""
    return "nothing applied yet" if seconds is None else f"as of {duration(seconds)} ago"
