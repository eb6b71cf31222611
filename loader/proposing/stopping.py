"""A signal ends a statement at the server, and not only the program that waits for it."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event
from types import FrameType

from psycopg2.extensions import get_wait_callback, set_wait_callback
from psycopg2.extras import wait_select

_stopped = Event()


def is_stopped() -> bool:
    """Return whether a signal came: what was cancelled then did not take too long."""
    return _stopped.is_set()


def _stop(number: int, frame: FrameType | None) -> None:
    _stopped.set()
    signal.default_int_handler(number, frame)


@contextmanager
def stopped_by_signals() -> Iterator[None]:
    """Let SIGINT and SIGTERM cancel the statement that a session waits for. Main thread only."""
    # libpq's own wait lets no handler run; this one cancels at KeyboardInterrupt.
    set_wait_callback(wait_select)
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
