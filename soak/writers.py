"""The demo's traffic in sessions that can be paused and that reconnect after a restart."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import wraps
from random import Random

import psycopg2

from soak.programs import SoakFailed
from soak.world import OddTable
from testkit.notify_changes import Session, templates_of
from testkit.notify_traffic import Change, Mix, mix
from testkit.source import Identity
from testkit.traffic import Worker

_RECONNECT_SECONDS = 0.1
_TRUNCATES_ARE_RARER = 60
"""A truncate sets counts to zero, which hides earlier mistakes."""


def stay_open(session: Session) -> int:
    """Keep the transaction open for a moment; others begin and commit meanwhile."""
    session.run("select pg_sleep(%s)", session.rng.uniform(0, 0.4))
    return 0


class Writers:
    """Sessions that each write `rate` transactions per second until closed."""

    def __init__(
        self, dsn: str, sessions: int, seed: int, rate: float, identity: Identity, odd: OddTable
    ) -> None:
        self._dsn, self._seed, self._identity = dsn, seed, identity
        self._pause = 1 / rate
        self._templates = templates_of(dsn)
        self._may_truncate = threading.Event()
        self._may_truncate.set()
        self._mix = _mix(identity, odd, self._may_truncate)
        self._closed = threading.Event()
        self._paused = False
        self._errors: list[BaseException] = []
        self._turns = [threading.Lock() for _ in range(sessions)]
        self._threads = [
            threading.Thread(target=self._keep_writing, args=(number,), daemon=True)
            for number in range(sessions)
        ]
        for thread in self._threads:
            thread.start()

    def pause(self) -> None:
        """Stop every session between two transactions until `resume`."""
        for turn in self._turns:
            turn.acquire()
        self._paused = True
        if self._errors:
            raise SoakFailed(f"a writer failed: {self._errors[0]!r}")

    def resume(self) -> None:
        """Let the sessions write again."""
        self._paused = False
        for turn in self._turns:
            turn.release()

    @contextmanager
    def without_truncates(self) -> Iterator[None]:
        """Begin no TRUNCATE in the block: a seed gives way to one, and has to be run again."""
        self._may_truncate.clear()
        try:
            yield
        finally:
            self._may_truncate.set()

    def close(self) -> None:
        """End every session after its current transaction."""
        self._closed.set()
        if self._paused:
            self.resume()
        for thread in self._threads:
            thread.join()

    def _keep_writing(self, number: int) -> None:
        random = Random(f"{self._seed} {number}")
        # A crash loses asynchronous commits; the slot must not have delivered them before.
        commit = "off" if number == 0 else "on"
        while not self._closed.wait(_RECONNECT_SECONDS):
            try:
                connection = psycopg2.connect(
                    self._dsn,
                    application_name="traffic",
                    options=f"-c synchronous_commit={commit}",
                )
            except psycopg2.OperationalError:
                continue
            session = Session(connection.cursor(), random, self._templates, self._identity)
            try:
                self._write(Worker(session, self._mix), self._turns[number])
            except psycopg2.Error as error:
                if not connection.closed:
                    self._errors.append(error)
                    return
            finally:
                connection.close()

    def _write(self, worker: Worker[Session], turn: threading.Lock) -> None:
        while not self._closed.wait(self._pause):
            with turn:
                if not self._closed.is_set():
                    worker.transaction()


def _mix(identity: Identity, odd: OddTable, may_truncate: threading.Event) -> Mix:
    every = mix(identity, truncates=True)
    every |= {odd.odd_insert: 8, odd.odd_update: 8, odd.odd_delete: 3, odd.odd_truncate: 4}
    every[stay_open] = 4
    chosen: Mix = {}
    for change, weight in every.items():
        if "truncate" in change.__name__:
            chosen[_allowed(change, may_truncate)] = weight
        else:
            chosen[change] = weight * _TRUNCATES_ARE_RARER
    return chosen


def _allowed(truncate: Change, may_truncate: threading.Event) -> Change:
    @wraps(truncate)
    def change(session: Session) -> int:
        return truncate(session) if may_truncate.is_set() else 0

    return change
