"""Whether dbt has installed something, or somebody waits for a position, as the target says."""

from __future__ import annotations

import time

from loader.staging.change_log import ChangeLog

_LOOK_SECONDS = 0.25


class TargetNews:
    """The newest answer of the target."""

    def __init__(self, change_log: ChangeLog, registration: int) -> None:
        self._log = change_log
        self.note(registration)

    def note(self, registration: int) -> None:
        """Take what a commit returns."""
        self.registration = registration
        """The number of the newest registration."""
        self.is_awaited = False
        """Whether cdc.wait_for, or a model with a newer baseline, waits for the position."""
        self._asked_at = time.monotonic()

    def look_if_due(self) -> None:
        """Ask, unless that was a moment ago."""
        if time.monotonic() - self._asked_at >= _LOOK_SECONDS:
            self.registration, self.is_awaited = self._log.look()
            self._asked_at = time.monotonic()
