"""Random concurrent traffic on a source: several sessions, all kinds of change, one seed."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from itertools import count
from random import Random
from threading import Event, Thread
from typing import Generic

import psycopg2
from psycopg2.extensions import cursor as Cursor

from demo.worker import Changes, S, Worker


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

    @property
    def counts(self) -> Counter[str]:
        """Committed changes that touched a row, by kind; also `worker.OUTCOMES` and `collision`."""
        total: Counter[str] = Counter()
        for worker in self._workers:
            total.update(worker.counts.copy())
        return total

    def start(self, transactions: int | None = None) -> None:
        """Begin to write in the background; `transactions` is the most that each session writes.

        A second start continues with other random numbers. Raises RuntimeError while it runs.
        """
        if self._threads:
            raise RuntimeError("the traffic is already running")
        start = next(self._starts)
        self._stopped.clear()
        for number in range(self._sessions):
            connection = psycopg2.connect(self._dsn, application_name="traffic")
            rng = Random(f"{self._seed} {start} {number}")
            worker = Worker(self._join_session(connection.cursor(), rng), self.changes)
            self._workers.append(worker)
            self._threads.append(
                Thread(target=self._work, args=(worker, connection, transactions), daemon=True)
            )
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End each session after its current transaction; raise the first unexpected error."""
        self._stopped.set()
        self._join()

    def run(self, transactions: int) -> None:
        """Write this many transactions in each session; raise the first unexpected error."""
        self.start(transactions)
        self._join()

    def _work(
        self,
        worker: Worker[S],
        connection: psycopg2.extensions.connection,
        transactions: int | None,
    ) -> None:
        try:
            due = time.monotonic()
            for number in count():
                if number == transactions or self._stopped.wait(max(due - time.monotonic(), 0)):
                    return
                # Transactions that are late are not made up for.
                due = max(due + self._pause, time.monotonic())
                worker.transaction()
        except Exception as error:  # raised in the thread that joins
            self._errors.append(error)
            self._stopped.set()
        finally:
            connection.close()

    def _join(self) -> None:
        for thread in self._threads:
            thread.join()
        self._threads.clear()
        if self._errors:
            raise self._errors.pop(0)
