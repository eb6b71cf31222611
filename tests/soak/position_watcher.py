"""Watches that the server has confirmed nothing which the target does not hold."""

from __future__ import annotations

import threading
from contextlib import ExitStack

import psycopg2

_SECONDS = 0.05


class Watcher:
    """A thread that compares the slot's confirmed position with the position of record."""

    def __init__(self, dsn: str, slot: str, target: str) -> None:
        self.observations = 0
        self.is_renewing = False
        """A new slot is there before its record: no violation then."""
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
        # Two statements, the slot first: a commit between the two must not look like a violation.
        source.execute(
            "select confirmed_flush_lsn from pg_replication_slots where slot_name = %s",
            (self._slot,),
        )
        confirmed = source.fetchone()
        if confirmed is None:  # being renewed
            return
        target.execute(
            "select position_lsn, %s::pg_lsn <= position_lsn from cdc.slot_position "
            "where slot_name = %s",
            (confirmed[0], self._slot),
        )
        [[position, holds]] = target.fetchall()
        self.observations += 1
        if not holds and not self.is_renewing:
            self.violations.append(f"confirmed {confirmed[0]}, but stored only up to {position}")
