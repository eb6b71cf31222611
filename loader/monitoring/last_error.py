"""Writes down what a run last failed with, which `loader status` shows."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress

from psycopg.conninfo import make_conninfo

from loader.capture.events import BuildBroke, Event, Failed
from waltally.database import connect
from waltally.errors import LoaderError, SlotInUse
from waltally.settings import Settings

_REPEAT_SECONDS = 60.0
_LENGTH = 500
_UPDATE = "update {}.slot_position set last_error = %s, last_error_at = now() where slot_name = %s"


class LastError:
    """Best effort: it raises nothing and gives up after a few seconds."""

    def __init__(self, settings: Settings, clock: Callable[[], float] = time.monotonic) -> None:
        self._settings = settings
        self._clock = clock
        self._lock = threading.Lock()
        self._text = ""
        self._written_at = 0.0

    def __call__(self, event: Event) -> None:
        """Write down a failure; ignore every other event."""
        # While another loader has the slot, the row shows that loader's errors.
        if isinstance(event, (Failed, BuildBroke)) and not isinstance(event.error, SlotInUse):
            with self._lock, suppress(LoaderError):
                self._write(str(event.error)[:_LENGTH])

    def _write(self, text: str) -> None:
        # Each write is WAL, and a slot on the same server has to read it.
        if text == self._text and self._clock() - self._written_at < _REPEAT_SECONDS:
            return
        settings = self._settings
        dsn = make_conninfo(settings.target, connect_timeout="3")
        with closing(connect(dsn, "target")) as connection:
            connection.ask("set statement_timeout to '2s'")
            connection.ask("set lock_timeout to '1s'")
            # No timeout ends a commit that waits for a standby.
            connection.ask("set synchronous_commit to 'local'")
            connection.ask(_UPDATE, (text, settings.slot), settings.schema)
        self._text, self._written_at = text, self._clock()
