"""Whether dbt has installed something, or somebody waits for a position, as the target says."""

from __future__ import annotations

import time

from loader.staging.change_log import ChangeLog

_LOOK_SECONDS = 0.25


class TargetNews:
    """The newest answer of the target."""

    def __init__(self, change_log: ChangeLog, models_version: int) -> None:
        self._log = change_log
        self.note(models_version)

    def note(self, models_version: int) -> None:
        """Take what a commit returns."""
        self.models_version = models_version
        """Of the installed models."""
        self.is_awaited = False
        """Whether cdc.wait_for, or a model with a newer baseline, waits for the position."""
        self._asked_at = time.monotonic()

    def look_if_due(self) -> None:
        """Ask, unless that was a moment ago."""
        if time.monotonic() - self._asked_at >= _LOOK_SECONDS:
            self.models_version, self.is_awaited = self._log.look()
            self._asked_at = time.monotonic()
