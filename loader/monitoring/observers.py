"""The observers of a run: its last error, which `loader status` shows, and what serves metrics."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager

import psycopg2
from psycopg.conninfo import make_conninfo
from psycopg2 import sql

from loader.capture.events import BuildBroke, Event, Failed, Notify
from waltally import login
from waltally.errors import LoaderError, SlotInUse
from waltally.settings import Settings

_CONNECT_SECONDS = "3"
_REPEAT_SECONDS = 60.0
_LENGTH = 500


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
            with self._lock:
                self._note(event.error)

    def _note(self, error: LoaderError) -> None:
        text = str(error)[:_LENGTH]
        # Each write is WAL, and a slot on the same server has to read it.
        if text == self._text and self._clock() - self._written_at < _REPEAT_SECONDS:
            return
        with contextlib.suppress(psycopg2.Error):
            self._write(text)
            self._text = text
            self._written_at = self._clock()

    def _write(self, text: str) -> None:
        update = sql.SQL(
            "update {}.slot_position set last_error = %s, last_error_at = now() "
            "where slot_name = %s"
        ).format(sql.Identifier(self._settings.schema))
        dsn = login.pinned(make_conninfo(self._settings.target, connect_timeout=_CONNECT_SECONDS))
        with (
            closing(psycopg2.connect(dsn)) as connection,
            connection,
            connection.cursor() as cursor,
        ):
            cursor.execute("set statement_timeout to '2s'; set lock_timeout to '1s'")
            # No timeout ends a commit that waits for a standby.
            cursor.execute("set synchronous_commit to 'local'")
            cursor.execute(update, (text, self._settings.slot))


@contextmanager
def observed(settings: Settings, served: AbstractContextManager[Notify]) -> Iterator[Notify]:
    """Yield what takes a run's events, and hands them to what `served` yields.

    An error that ends the run is an event too. Raises what `served` does.
    """
    last_error = LastError(settings)
    with served as count:

        def notify(event: Event) -> None:
            count(event)
            last_error(event)

        try:
            yield notify
        except LoaderError as error:
            notify(Failed(error, retried=False))
            raise
