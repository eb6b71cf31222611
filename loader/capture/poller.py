"""Asks one server again and again, in a thread and over a connection of its own."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Generic, TypeVar

import psycopg2

from waltally.database import Connection
from waltally.errors import LoaderError, unexpected

log = logging.getLogger("loader")

C = TypeVar("C", bound=Connection)
T = TypeVar("T")

_CLOSE_SECONDS = 3.0


class Poller(Generic[C, T]):
    """Keeps the newest answer, which can be read without waiting for the server."""

    def __init__(
        self,
        name: str,
        connect: Callable[[], C],
        ask: Callable[[C], T],
        seconds: float,
    ) -> None:
        """`ask` is called once in so many `seconds`. Both callables may raise LoaderError."""
        self._connect = connect
        self._ask = ask
        self._seconds = seconds
        self._connection: C | None = None
        self._newest: T | LoaderError | None = None
        self._answered_at = time.monotonic()
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def failed(self, error: LoaderError, is_last: bool) -> None:
        """Take what `connect` and `ask` raise, and whether this ends the thread."""

    def finish(self, connection: C) -> None:
        """Ask the last question. Raises LoaderError."""

    @property
    def connection(self) -> C:
        """The connection, for the thread itself and for questions before it is started."""
        if self._connection is None:
            self._connection = self._connect()
        return self._connection

    @property
    def seconds_without_answer(self) -> float:
        """How long ago the server last answered."""
        return time.monotonic() - self._answered_at

    def latest(self, seconds: float) -> T | None:
        """Return the newest answer; None where it is older, and where the server is away."""
        newest = self._newest
        is_old = self.seconds_without_answer > seconds
        return None if is_old or isinstance(newest, LoaderError) else newest

    def start(self) -> None:
        """Begin to ask."""
        self._answered_at = time.monotonic()
        self._thread.start()

    def stop(self) -> None:
        """Ask no more. A thread that waits for a frozen server ends with the process."""
        self._stopping.set()
        self._wake.set()

    def close(self) -> None:
        """Ask no more, wait for the last question, and end the connection."""
        self.stop()
        if self._thread.ident is None:
            self._disconnect()
            return
        self._thread.join(_CLOSE_SECONDS)
        if self._thread.is_alive():
            # It waits for a server that does not answer. A connection attempt ends by itself
            # after connect_timeout.
            if self._connection is not None:
                self._connection.cut()
            self._thread.join(_CLOSE_SECONDS)

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._ask_once()
                self._wake.wait(self._seconds)
                self._wake.clear()
            if self._connection is not None:
                with suppress(LoaderError):
                    self.finish(self._connection)
        except Exception as error:
            log.debug("the thread %s broke", self._thread.name, exc_info=error)
            self._newest = unexpected(error)
            self.failed(unexpected(error), True)
        finally:
            self._disconnect()

    def _ask_once(self) -> None:
        try:
            answer = self._ask(self.connection)
        except LoaderError as error:
            log.debug("%s: %s", self._thread.name, error)
            self._newest = error
            self._disconnect()
            self.failed(error, False)
        else:
            self._answered_at = time.monotonic()
            self._newest = answer

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(psycopg2.Error):
                connection.close()
