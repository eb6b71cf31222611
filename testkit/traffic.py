"""Random concurrent traffic on any source: several sessions, all kinds of change, one seed."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import count
from random import Random
from threading import Event, Thread
from typing import Any, Generic, Self, TypeVar

import psycopg2
from psycopg2 import errors
from psycopg2.extensions import connection as Connection
from psycopg2.extensions import cursor as Cursor

from testkit.waiting import wait_until


@dataclass
class BaseSession:
    """One session's open transaction, and the keys that it deleted in earlier ones."""

    cursor: Cursor
    rng: Random
    deleted: list[Any] = field(default_factory=list, kw_only=True)
    """Keys whose deletion is committed, to be inserted again later."""
    deleting: list[Any] = field(default_factory=list, kw_only=True)
    """Keys deleted in the open transaction."""

    def run(self, statement: str, *values: Any) -> int:
        """Execute a statement and return how many rows it touched."""
        self.cursor.execute(statement, values or None)
        return self.cursor.rowcount

    def fetch(self, statement: str, *values: Any) -> list[Any]:
        """Execute a statement and return its first column."""
        return [row[0] for row in self.rows(statement, *values)]

    def rows(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """Execute a statement and return its rows."""
        self.cursor.execute(statement, values or None)
        return self.cursor.fetchall()


S = TypeVar("S", bound=BaseSession)

# Each returns how many rows it changed; the number is the weight.
Changes = dict[Callable[[S], int], int]


def truncates(changes: Changes[S]) -> Changes[S]:
    """Return those that are a TRUNCATE."""
    return {kind: weight for kind, weight in changes.items() if "truncate" in kind.__name__}


# Errors that concurrent sessions cause; the server has rolled the transaction back.
_COLLISIONS = (
    errors.DeadlockDetected,
    errors.SerializationFailure,
    errors.LockNotAvailable,
    errors.UniqueViolation,
    # A row of an older snapshot whose parent another session has truncated meanwhile.
    errors.ForeignKeyViolation,
)

_DEEPEST_SAVEPOINT = 2


class Worker(Generic[S]):
    """Writes transactions through its session; `counts` says what was committed, by kind.

    A transaction that collided with another session's is counted as `collision` and not repeated.
    """

    def __init__(self, session: S, mix: Changes[S]) -> None:
        self.counts: Counter[str] = Counter()
        self._session, self._mix = session, mix

    def transaction(self) -> None:
        """Write one transaction."""
        session, rng = self._session, self._session.rng
        connection = session.cursor.connection
        session.deleting = []
        try:
            if rng.random() < 0.05:
                session.run("set transaction isolation level repeatable read")
            done = self._some_changes(depth=0)
            if rng.random() < 0.08:
                connection.rollback()
                self.counts["transaction_rolled_back"] += bool(done)
                return
            connection.commit()
        except _COLLISIONS:
            connection.rollback()
            self.counts["collision"] += 1
            return
        session.deleted += session.deleting
        self.counts += done

    def _some_changes(self, depth: int) -> Counter[str]:
        rng = self._session.rng
        done: Counter[str] = Counter()
        for _ in range(rng.choice((1, 1, 1, 2, 3))):
            if depth < _DEEPEST_SAVEPOINT and rng.random() < 0.15:
                done += self._savepoint(depth + 1)
            else:
                [change] = rng.choices(list(self._mix), list(self._mix.values()))
                done[change.__name__] += bool(change(self._session) > 0)
        return +done

    def _savepoint(self, depth: int) -> Counter[str]:
        """Make some changes and keep them or not, which is counted where there were any."""
        session = self._session
        session.run(f"savepoint depth_{depth}")
        done = self._some_changes(depth)
        if session.rng.random() < 0.5:
            session.run(f"release savepoint depth_{depth}")
            return done + Counter(savepoint_released=int(bool(done)))
        session.run(f"rollback to savepoint depth_{depth}")
        return Counter(savepoint_rolled_back=int(bool(done)))


class Sessions(Generic[S]):
    """Sessions that write until stopped, or a number of transactions each.

    `join` makes a session from a cursor and random numbers. `rate` is in transactions per second
    and session; None means without pauses. The seed fixes what each session tries; the keys of new
    rows and the order between the sessions differ from run to run.
    """

    def __init__(
        self,
        dsn: str,
        join: Callable[[Cursor, Random], S],
        changes: Changes[S],
        sessions: int = 4,
        seed: int = 1,
        rate: float | None = None,
    ) -> None:
        self._dsn, self._join_session, self.changes = dsn, join, changes
        self._sessions, self._seed = sessions, seed
        self._pause = 1 / rate if rate else 0.0
        self._starts = count()
        self._stopped = Event()
        self._threads: list[Thread] = []
        self._workers: list[Worker[S]] = []
        self._errors: list[Exception] = []

    @contextmanager
    def without_truncates(self) -> Iterator[None]:
        """Begin no TRUNCATE in the block: a seed gives way to one, and has to be run again."""
        left_out = truncates(self.changes)
        self.changes.update(dict.fromkeys(left_out, 0))
        try:
            yield
        finally:
            self.changes.update(left_out)

    @property
    def counts(self) -> Counter[str]:
        """Committed changes that touched a row, by kind; also what became of others."""
        total: Counter[str] = Counter()
        for worker in self._workers:
            total.update(worker.counts.copy())
        return total

    def start(self, transactions: int | None = None) -> None:
        """Begin to write in the background; `transactions` is the most that each session writes.

        A second start continues with other random numbers.
        """
        assert not self._threads, "the traffic is already running"
        start = next(self._starts)
        self._stopped.clear()
        for number in range(self._sessions):
            rng = Random(f"{self._seed} {start} {number}")
            self._threads.append(
                Thread(target=self._work, args=(number, rng, transactions), daemon=True)
            )
        for thread in self._threads:
            thread.start()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def wait(self, changes: int) -> None:
        """Return once so many changes more are committed; it goes on."""
        until = self.counts.total() + changes
        wait_until(lambda: self.counts.total() >= until, "the traffic goes on")

    def stop(self) -> None:
        """End each session after its current transaction; raise the first unexpected error."""
        self._stopped.set()
        self._join()

    def run(self, transactions: int) -> None:
        """Write this many transactions in each session; raise the first unexpected error."""
        self.start(transactions)
        self._join()

    def _work(self, number: int, rng: Random, transactions: int | None) -> None:
        try:
            with closing(self._connect()) as connection:
                self._write(number, connection, rng, transactions)
        except Exception as error:  # raised in the thread that joins
            self._errors.append(error)
            self._stopped.set()

    def _connect(self, options: str = "") -> Connection:
        return psycopg2.connect(self._dsn, application_name="traffic", options=options)

    def _write(
        self, number: int, connection: Connection, rng: Random, transactions: int | None
    ) -> None:
        worker = Worker(self._join_session(connection.cursor(), rng), self.changes)
        self._workers.append(worker)
        due = time.monotonic()
        for written in count():
            if written == transactions or self._stopped.wait(max(due - time.monotonic(), 0)):
                return
            # Transactions that are late are not made up for.
            due = max(due + self._pause, time.monotonic())
            worker.transaction()

    def _join(self) -> None:
        for thread in self._threads:
            thread.join()
        self._threads.clear()
        if self._errors:
            raise self._errors.pop(0)


# Each begins two days: with Europe's changes of clock at 01:00 UTC, a new year, a leap day.
_STARTS = (
    datetime(2026, 3, 28),
    datetime(2026, 10, 24),
    datetime(2025, 12, 31),
    datetime(2024, 2, 28),
)
_EDGES = (22, 23, 24, 25, 26)
"""Hours from such a start at which some day of Europe begins or a clock changes."""


def awkward_time(rng: Random) -> datetime:
    """Return a time in UTC, to the microsecond: near a change of clock, a midnight or on one."""
    start = rng.choice(_STARTS)
    if rng.random() < 0.3:
        edge = start + timedelta(hours=rng.choice(_EDGES))
        return edge - timedelta(microseconds=rng.choice((0, 0, 1)))
    return start + timedelta(microseconds=rng.randrange(48 * 3600 * 1_000_000))
