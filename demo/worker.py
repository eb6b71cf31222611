"""One session of the traffic: random changes in random transactions, one after the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Generic, TypeVar

from psycopg2 import errors

from demo.base_session import BaseSession

S = TypeVar("S", bound=BaseSession)

# Each returns how many rows it changed; the number is the weight.
Changes = dict[Callable[[S], int], int]

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

OUTCOMES = ("savepoint_released", "savepoint_rolled_back", "transaction_rolled_back")
"""What can happen to changes; counted beside the kinds of change, where it happened to one."""


class Worker(Generic[S]):
    """Writes transactions through its session; `counts` says what was committed, by kind.

    A transaction that collided with another session's is counted as `collision` and not repeated.
    """

    def __init__(self, session: S, mix: Changes[S]) -> None:
        self.counts: Counter[str] = Counter()
        self._session = session
        self._changes, self._weights = list(mix), list(mix.values())

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
                [change] = rng.choices(self._changes, self._weights)
                done[change.__name__] += bool(change(self._session) > 0)
        return +done

    def _savepoint(self, depth: int) -> Counter[str]:
        session = self._session
        session.run(f"savepoint depth_{depth}")
        done = self._some_changes(depth)
        if session.rng.random() < 0.5:
            session.run(f"release savepoint depth_{depth}")
            return done + Counter(savepoint_released=int(bool(done)))
        session.run(f"rollback to savepoint depth_{depth}")
        return Counter(savepoint_rolled_back=int(bool(done)))
