"""What watches a soak: how long a commit of the application takes, and what the slot confirms."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

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


_SECONDS = 0.05


class PositionWatcher:
    """A thread that compares the slot's confirmed_flush_lsn with the position of record."""

    def __init__(self, dsn: str, slot: str, target: str) -> None:
        self.observations = 0
        self.is_renewing = False
        """Set while the slot is made anew: it is there before its position of record."""
        self.violations: list[str] = []
        self._dsn, self._slot, self._target = dsn, slot, target
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watcher", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop watching."""
        self._closed.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._closed.wait(_SECONDS):
            with ExitStack() as opened:
                try:
                    source, target = (
                        psycopg2.connect(dsn, application_name="watcher")
                        for dsn in (self._dsn, self._target)
                    )
                except psycopg2.OperationalError:
                    continue
                for connection in (source, target):
                    opened.callback(connection.close)
                    connection.autocommit = True
                try:
                    while not self._closed.wait(_SECONDS):
                        self._observe(source.cursor(), target.cursor())
                except psycopg2.Error:
                    if not (source.closed or target.closed):
                        raise

    def _observe(
        self, source: psycopg2.extensions.cursor, target: psycopg2.extensions.cursor
    ) -> None:
        # The slot first: a commit between the two statements must not look like a violation.
        source.execute(
            "select confirmed_flush_lsn from pg_replication_slots where slot_name = %s",
            (self._slot,),
        )
        confirmed = source.fetchone()
        if confirmed is None:  # the slot is being made anew
            return
        target.execute(
            "select position_lsn, %s::pg_lsn <= position_lsn from cdc.slot_position "
            "where slot_name = %s",
            (confirmed[0], self._slot),
        )
        [[position, holds]] = target.fetchall()
        self.observations += 1
        if not holds and not self.is_renewing:
            self.violations.append(f"confirmed {confirmed[0]}, but staged only up to {position}")
