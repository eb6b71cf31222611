"""What watches a soak: how long a commit of the application takes, and what the slot confirms."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress

import psycopg2
from psycopg2.extensions import cursor as Cursor

from soak.programs import SoakFailed
from testkit.servers import connect

LONGEST_SECONDS = 20.0
"""The limit. A commit on two busy cores takes less; a wait for a missing replica takes longer."""

_PAUSE = 0.05


class Watcher:
    """A thread that looks at databases again and again, also after their servers were away."""

    def __init__(self, *dsns: str) -> None:
        self._dsns = dsns
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watcher", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop looking."""
        self._closed.set()
        self._thread.join()

    def _look(self, *cursors: Cursor) -> None:
        raise NotImplementedError

    def _watch(self) -> None:
        while not self._closed.wait(_PAUSE):
            with ExitStack() as opened, suppress(psycopg2.OperationalError):
                connections = [opened.enter_context(closing(connect(dsn))) for dsn in self._dsns]
                try:
                    while not self._closed.wait(_PAUSE):
                        self._look(*(each.cursor() for each in connections))
                except psycopg2.Error:
                    if not any(each.closed for each in connections):
                        raise


class CommitTimer(Watcher):
    """Commits again and again, and knows the longest time of one commit."""

    def __init__(self, dsn: str) -> None:
        self.count = 0
        self.longest = 0.0
        self._pauses = 0
        self._is_paused = False
        super().__init__(dsn)

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

    def check(self) -> None:
        """Raise SoakFailed where a commit took longer than the limit."""
        if self.longest > LONGEST_SECONDS:
            raise SoakFailed(f"a commit of the application took {self.longest:.1f} s")

    def _look(self, *cursors: Cursor) -> None:
        pauses, began = self._pauses, time.monotonic()
        if self._is_paused:
            return
        cursors[0].execute("insert into unrelated (note) values ('timed')")
        seconds = time.monotonic() - began
        if self._pauses == pauses:
            self.count += 1
            self.longest = max(self.longest, seconds)


class PositionWatcher(Watcher):
    """Compares the slot's confirmed_flush_lsn with the position of record."""

    def __init__(self, dsn: str, slot: str, target: str) -> None:
        self.observations = 0
        self.violations: list[str] = []
        self._slot = slot
        super().__init__(dsn, target)

    def check(self) -> None:
        """Raise SoakFailed where the slot was confirmed too early."""
        if self.violations:
            raise SoakFailed("confirmed before it was staged:\n" + "\n".join(self.violations[:10]))

    def _look(self, *cursors: Cursor) -> None:
        source, target = cursors
        # The slot first: a commit between the two statements must not look like a violation.
        source.execute(
            "select confirmed_flush_lsn from pg_replication_slots where slot_name = %s",
            (self._slot,),
        )
        [[confirmed]] = source.fetchall()
        target.execute(
            "select position_lsn, %s::pg_lsn <= position_lsn from cdc.slot_position "
            "where slot_name = %s",
            (confirmed, self._slot),
        )
        [[position, holds]] = target.fetchall()
        self.observations += 1
        if not holds:
            self.violations.append(f"confirmed {confirmed}, but staged only up to {position}")
