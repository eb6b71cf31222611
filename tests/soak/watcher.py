"""Watches that the server has confirmed nothing which the target does not hold."""

from __future__ import annotations

import threading

import psycopg2

_SECONDS = 0.05


class Watcher:
    """A thread that compares the slot's confirmed position with the position of record."""

    def __init__(self, dsn: str, slot: str) -> None:
        self.observations = 0
        self.violations: list[str] = []
        self._dsn, self._slot = dsn, slot
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watcher", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop watching."""
        self._closed.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._closed.wait(_SECONDS):
            try:
                connection = psycopg2.connect(self._dsn, application_name="watcher")
            except psycopg2.OperationalError:
                continue
            connection.autocommit = True
            try:
                with connection.cursor() as cursor:
                    while not self._closed.wait(_SECONDS):
                        self._observe(cursor)
            except psycopg2.Error:
                if not connection.closed:
                    raise
            finally:
                connection.close()

    def _observe(self, cursor: psycopg2.extensions.cursor) -> None:
        # Two statements, the slot first: in one, the record is read as of the statement's
        # snapshot and the slot later, so a commit between the two would look like a violation.
        cursor.execute(
            "select confirmed_flush_lsn from pg_replication_slots where slot_name = %s",
            (self._slot,),
        )
        [[confirmed]] = cursor.fetchall()
        cursor.execute(
            "select position_lsn, %s::pg_lsn <= position_lsn from cdc.slot_position "
            "where slot_name = %s",
            (confirmed, self._slot),
        )
        [[position, holds]] = cursor.fetchall()
        self.observations += 1
        if not holds:
            self.violations.append(f"confirmed {confirmed}, but stored only up to {position}")
