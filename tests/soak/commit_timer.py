"""Watches that no commit of the application is delayed by us."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg2

LONGEST_SECONDS = 5.0
"""More than a commit takes on two busy cores; a wait for a replica that is away takes longer."""

_PAUSE = 0.05


class Commits:
    """A thread that commits again and again and keeps the longest time that one took."""

    def __init__(self, dsn: str) -> None:
        self.count = 0
        self.longest = 0.0
        self._dsn = dsn
        self._excuses = 0
        self._is_excused = False
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._keep_committing, name="commits", daemon=True)
        self._thread.start()

    @contextmanager
    def excused(self) -> Iterator[None]:
        """Count no commit that overlaps with the block: its fault stops commits by itself."""
        self._excuses += 1
        self._is_excused = True
        try:
            yield
        finally:
            self._excuses += 1
            self._is_excused = False

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
        excuses, began = self._excuses, time.monotonic()
        if self._is_excused:
            return
        cursor.execute("insert into unrelated (note) values ('timed')")
        seconds = time.monotonic() - began
        if self._excuses == excuses:
            self.count += 1
            self.longest = max(self.longest, seconds)
