"""What a run is doing, from its events: whether it follows the slot, and the builds. Pure."""

from __future__ import annotations

import time
from collections.abc import Callable

from loader.capture.events import BuildBroke, Building, Built, Event, Failed, Following
from loader.monitoring.amounts import duration

_LONG_BUILD_SECONDS = 2.0
"""A shorter build is not worth a word of its own: there may be two in each second."""


class Stage:
    """Takes the events of a run and says in words what it is doing."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._is_following = False
        self._waits = False
        self._building_since: float | None = None
        self._built_at: float | None = None
        self._broke_at: float | None = None

    def __call__(self, event: Event) -> None:
        """Take an event."""
        match event:
            case Following():
                self._is_following, self._waits = True, False
            case Failed():
                self._is_following, self._waits = False, True
            case Building():
                self._building_since = self._clock()
            case Built():
                self._built_at, self._building_since = self._clock(), None
                self._broke_at = None
            case BuildBroke():
                self._broke_at, self._building_since = self._clock(), None

    @property
    def is_building(self) -> bool:
        """Whether a build is under way, or dbt is being loaded for the first one."""
        return self._building_since is not None

    @property
    def builds_long(self) -> bool:
        """Whether the build that is under way takes long."""
        since = self._building_since
        return since is not None and self._clock() - since > _LONG_BUILD_SECONDS

    @property
    def following(self) -> str:
        """Why nothing is read, empty where the slot is followed."""
        if self._is_following:
            return ""
        return "not connected, trying again" if self._waits else "connecting"

    @property
    def build(self) -> str:
        """What the builds are at; empty before the first one, and in a run that does not build."""
        # Another thread takes the events, so each is read once.
        now, since, built, broke = (
            self._clock(),
            self._building_since,
            self._built_at,
            self._broke_at,
        )
        if broke is not None:
            return f"the last build failed {duration(now - broke)} ago"
        if since is not None and built is None:
            return f"the first build began {duration(now - since)} ago"
        if since is not None and now - since > _LONG_BUILD_SECONDS:
            return f"a build began {duration(now - since)} ago"
        return "" if built is None else f"built {duration(now - built)} ago"
