"""A signal ends a statement at the server, and not only the program that waits for it."""

from __future__ import annotations

import select
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event
from types import FrameType

from psycopg2.extensions import (
    POLL_OK,
    POLL_READ,
    POLL_WRITE,
    connection,
    get_wait_callback,
    set_wait_callback,
)

_LOOK_SECONDS = 0.1
_stopped = Event()


def is_stopped() -> bool:
    """Return whether a signal came: what was cancelled then did not take too long."""
    return _stopped.is_set()


def _stop(number: int, frame: FrameType | None) -> None:
    _stopped.set()
    while frame is not None and frame.f_code is not _wait.__code__:
        frame = frame.f_back
    # An exception in there would close the session, and leave its statement running.
    if frame is None:
        signal.default_int_handler(number, frame)


def _wait(session: connection) -> None:
    """Wait for the server; after a signal cancel what runs, until the server says that it is."""
    while (state := session.poll()) != POLL_OK:
        if _stopped.is_set():
            session.cancel()
        read, write = (
            [session.fileno()] if state == end else [] for end in (POLL_READ, POLL_WRITE)
        )
        select.select(read, write, [], _LOOK_SECONDS)


@contextmanager
def stopped_by_signals() -> Iterator[None]:
    """Let SIGINT and SIGTERM cancel the statement that a session waits for. Main thread only."""
    # libpq's own wait lets no handler run.
    set_wait_callback(_wait)
    # A shell starts background processes with Ctrl-C ignored.
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, _stop) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
        set_wait_callback(None)


@contextmanager
def not_stopped() -> Iterator[None]:
    """Let a signal wait for the end of the block: COPY takes no callback."""
    before = get_wait_callback()
    set_wait_callback(None)
    try:
        yield
    finally:
        set_wait_callback(before)
