"""What watches a soak: how long a commit of the application takes, and what the slot confirms."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress

import psycopg2

from soak.programs import SoakFailed
from testkit.servers import connect
from waltally.database import Connection
from waltally.errors import LoaderError
from waltally.settings import DEFAULT_SLOT as SLOT

LONGEST_SECONDS = 20.0
"""The limit. A commit on two busy cores takes less; a wait for a missing replica takes longer."""

_PAUSE = 0.05


class Watcher:
    """A thread that looks again and again, also after the servers were away.

    It commits at the source, and compares the slot's confirmed_flush_lsn with the position of
    record.
    """

    def __init__(self, dsn: str, target: str) -> None:
        self.commits = self.observations = 0
        self.longest_commit = 0.0
        self._violations: list[str] = []
        self._blocked = 0
        """Odd while commits are not timed."""
        self._closed = threading.Event()
        watches: list[tuple[Callable[..., None], *tuple[str, ...]]]
        watches = [(self._commit, dsn), (self._compare, dsn, target)]
        self._threads = [
            threading.Thread(target=self._watch, args=watch, daemon=True) for watch in watches
        ]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Stop looking."""
        self._closed.set()
        for thread in self._threads:
            thread.join()

    @contextmanager
    def not_timed(self) -> Iterator[None]:
        """Ignore commits that overlap with the block."""
        self._blocked += 1
        try:
            yield
        finally:
            self._blocked += 1

    def check(self) -> None:
        """Raise SoakFailed where a commit took too long or the slot was confirmed too early."""
        if self.longest_commit > LONGEST_SECONDS:
            raise SoakFailed(f"a commit of the application took {self.longest_commit:.1f} s")
        if self._violations:
            shown = "\n".join(self._violations[:10])
            raise SoakFailed(f"confirmed before it was staged:\n{shown}")

    def _watch(self, look: Callable[..., None], *dsns: str) -> None:
        while not self._closed.wait(_PAUSE):
            with ExitStack() as opened, suppress(psycopg2.OperationalError):
                sessions = [opened.enter_context(closing(connect(dsn))) for dsn in dsns]
                try:
                    while not self._closed.wait(_PAUSE):
                        look(*sessions)
                except LoaderError:
                    if not any(each.closed for each in sessions):
                        raise

    def _commit(self, source: Connection) -> None:
        blocked, began = self._blocked, time.monotonic()
        if blocked % 2:
            return
        source.ask("insert into unrelated (note) values ('timed')")
        seconds = time.monotonic() - began
        if self._blocked == blocked:
            self.commits += 1
            self.longest_commit = max(self.longest_commit, seconds)

    def _compare(self, source: Connection, target: Connection) -> None:
        # The slot first: a commit between the two statements must not look like a violation.
        [(confirmed,)] = source.ask(
            "select confirmed_flush_lsn from pg_replication_slots where slot_name = %s", (SLOT,)
        )
        [(position, holds)] = target.ask(
            "select position_lsn, %s::pg_lsn <= position_lsn from cdc.slot_position"
            " where slot_name = %s",
            (confirmed, SLOT),
        )
        self.observations += 1
        if not holds:
            self._violations.append(f"confirmed {confirmed}, but staged only up to {position}")
