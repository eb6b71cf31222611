"""The demo's traffic in sessions that can be paused and that reconnect after a restart."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

import psycopg2

from soak.programs import SoakFailed
from soak.world import OddTable
from testkit.notify_changes import Session, templates_of
from testkit.notify_traffic import mix
from testkit.source import Identity
from testkit.traffic import Sessions, Worker

_SESSIONS = 4
_RECONNECT_SECONDS = 0.1
_TRUNCATES_ARE_RARER = 60
"""A truncate sets counts to zero, which hides earlier mistakes."""


def stay_open(session: Session) -> int:
    """Keep the transaction open for a moment; others begin and commit meanwhile."""
    session.run("select pg_sleep(%s)", session.rng.uniform(0, 0.4))
    return 0


class Writers(Sessions[Session]):
    """Sessions that each write `rate` transactions per second until closed."""

    def __init__(self, dsn: str, seed: int, rate: float, identity: Identity, odd: OddTable) -> None:
        templates = templates_of(dsn)
        kinds = mix(truncates=True)
        kinds |= {odd.odd_insert: 8, odd.odd_update: 8, odd.odd_delete: 3, odd.odd_truncate: 4}
        kinds[stay_open] = 4
        self._truncates = {kind: n for kind, n in kinds.items() if "truncate" in kind.__name__}
        often = {kind: weight * _TRUNCATES_ARE_RARER for kind, weight in kinds.items()}
        super().__init__(
            dsn,
            lambda cursor, random: Session(cursor, random, templates, identity),
            often | self._truncates,
            *(_SESSIONS, seed, rate),
        )
        self._turns = [threading.Lock() for _ in range(_SESSIONS)]
        self._is_paused = False
        self.start()

    def pause(self) -> None:
        """Stop every session between two transactions until `resume`."""
        for turn in self._turns:
            turn.acquire()
        self._is_paused = True
        if self._errors:
            raise SoakFailed(f"a writer failed: {self._errors[0]!r}")

    def resume(self) -> None:
        """Let the sessions write again."""
        self._is_paused = False
        for turn in self._turns:
            turn.release()

    @contextmanager
    def without_truncates(self) -> Iterator[None]:
        """Begin no TRUNCATE in the block: a seed gives way to one, and has to be run again."""
        self.changes.update(dict.fromkeys(self._truncates, 0))
        try:
            yield
        finally:
            self.changes.update(self._truncates)

    def close(self) -> None:
        """End every session after its current transaction."""
        self._stopped.set()
        if self._is_paused:
            self.resume()
        for thread in self._threads:
            thread.join()

    def _work(self, number: int, rng: Random, transactions: int | None) -> None:
        # A crash loses asynchronous commits; the slot must not have delivered them before.
        options = "-c synchronous_commit=off" if number == 0 else ""
        while not self._stopped.wait(_RECONNECT_SECONDS):
            try:
                connection = self._connect(options)
            except psycopg2.OperationalError:
                continue
            try:
                self._write(number, connection, rng, transactions)
            except psycopg2.Error as error:
                if not connection.closed:
                    self._errors.append(error)
                    return
            finally:
                connection.close()

    def _transact(self, number: int, worker: Worker[Session]) -> None:
        with self._turns[number]:
            if not self._stopped.is_set():
                worker.transaction()
