"""Times commits of the application: waltally must not delay them."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg2

LONGEST_SECONDS = 20.0
"""The limit. A commit on two busy cores takes less; a wait for a missing replica takes longer."""

_PAUSE = 0.05


class CommitTimer:
    """A thread that commits again and again, and the longest time of one commit."""

    def __init__(self, dsn: str) -> None:
        self.count = 0
        self.longest = 0.0
        self._dsn = dsn
        self._pauses = 0
        self._is_paused = False
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._keep_committing, name="commits", daemon=True)
        self._thread.start()

    @contextmanager
    def not_timed(self) -> Iterator[None]:
        """Ignore commits that overlap with the block."""
        self._pauses += 1
        self._is_paused = True
        try:
            yield
        finally:
            self._pauses += 1
            self._is_paused = False

    def close(self) -> None:
        """Stop committing."""
        self._closed.set()
        self._thread.join()

    def _keep_committing(self) -> None:
        while not self._closed.wait(_PAUSE):
            try:
                connection = psycopg2.connect(self._dsn, application_name="commits")
            except psycopg2.OperationalError:
                continue
            connection.autocommit = True
            try:
                with connection.cursor() as cursor:
                    while not self._closed.wait(_PAUSE):
                        self._commit(cursor)
            except psycopg2.Error:
                if not connection.closed:
                    raise
            finally:
                connection.close()

    def _commit(self, cursor: psycopg2.extensions.cursor) -> None:
        pauses, began = self._pauses, time.monotonic()
        if self._is_paused:
            return
        cursor.execute("insert into unrelated (note) values ('timed')")
        seconds = time.monotonic() - began
        if self._pauses == pauses:
            self.count += 1
            self.longest = max(self.longest, seconds)
