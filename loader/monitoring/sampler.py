"""Repeats one question to a server, in a thread and over a connection of its own."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import closing
from typing import Generic, TypeVar

import psycopg2
from psycopg.conninfo import make_conninfo
from psycopg2 import extensions

from waltally.database import connect, explained
from waltally.errors import LoaderError

log = logging.getLogger("loader")

T = TypeVar("T")

REFRESH_SECONDS = 5.0
_STALE_SECONDS = 15.0
"""An older answer is not served: the server is down or frozen."""


class Sampler(Generic[T]):
    """Keeps the newest answer of one server; reading it never waits."""

    def __init__(self, dsn: str, place: str, ask: Callable[[extensions.connection], T]) -> None:
        """`place` is `source` or `target`; `ask` may raise LoaderError."""
        self._dsn = make_conninfo(dsn, application_name="waltally metrics")
        self._place = place
        self._ask = ask
        self._answer: tuple[float, T] | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"{place} sampler", daemon=True)

    @property
    def latest(self) -> T | None:
        """The newest answer, None where it is older than 15 seconds."""
        answer = self._answer
        if answer is None or time.monotonic() - answer[0] > _STALE_SECONDS:
            return None
        return answer[1]

    def start(self) -> None:
        """Begin to ask."""
        self._thread.start()

    def close(self) -> None:
        """Ask no more. A thread that waits for a frozen server ends with the process."""
        self._stop.set()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._ask_on_one_connection()
            except (LoaderError, psycopg2.Error) as error:
                self._answer = None
                log.debug("no answer of the %s: %s", self._place, error)
                self._stop.wait(REFRESH_SECONDS)

    def _ask_on_one_connection(self) -> None:
        with closing(connect(self._dsn, self._place)) as connection:
            with explained(self._place), connection, connection.cursor() as cursor:
                cursor.execute("set statement_timeout to '5s'")
            while not self._stop.is_set():
                self._answer = (time.monotonic(), self._ask(connection))
                self._stop.wait(REFRESH_SECONDS)
