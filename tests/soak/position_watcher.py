"""Watches the slot: it must never be confirmed beyond what the target holds."""

from __future__ import annotations

import threading
from contextlib import ExitStack

import psycopg2

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
