"""The rows of one batch as the file that COPY reads: they pass through and are never gathered."""

from __future__ import annotations

import time
from threading import Event

from loader import kill_points
from loader.batches import COPY_HEADER, COPY_TRAILER, Batcher
from loader.inbox import Inbox
from loader.wal2json import Commit

_CHUNK = 256 * 1024
_WAIT = 0.25
_GRACE_SECONDS = 0.5
"""How long a stopping loader goes on, so that a short transaction ends and is kept."""


class Stopped(Exception):
    """The loader is to stop, and the source transaction at hand is not over."""


class CopySource:
    """Ends at a source commit: when the batch is full, or when nothing more has arrived."""

    def __init__(self, first_row: bytes, inbox: Inbox, batcher: Batcher, stop: Event) -> None:
        self._next: list[bytes] = [COPY_HEADER, first_row]
        self._size = len(first_row)
        self._inbox = inbox
        self._batcher = batcher
        self._stop = stop
        self._ended = False
        self._stop_seen = 0.0
        self.failure: BaseException | None = None
        """What broke the reading; COPY itself reports only that something did."""

    def read(self, _size: int) -> bytes:
        """Return the next piece, empty at the end. Raises Stopped and what the stream raised."""
        kill_points.reach("copy-chunk")
        try:
            self._stop_if_asked()
            while not self._ended and self._size < _CHUNK and self._advance():
                pass
        except BaseException as failure:
            self.failure = failure
            raise
        piece = b"".join(self._next)
        self._next.clear()
        self._size = 0
        return piece

    def _stop_if_asked(self) -> None:
        """Give up a transaction that does not end soon: one of hours must not hold up a stop."""
        if not self._stop.is_set():
            return
        self._stop_seen = self._stop_seen or time.monotonic()
        overdue = time.monotonic() - self._stop_seen >= _GRACE_SECONDS
        if overdue and self._batcher.in_transaction:
            raise Stopped

    def _advance(self) -> bool:
        """Take some messages; False where what is there should go out before waiting for more."""
        moved = self._batcher.move_changes(self._inbox.ready, self._next, _CHUNK - self._size)
        if moved:
            self._size += moved
            return True
        message = self._inbox.take()
        if message is None:
            if not self._batcher.in_transaction:
                return self._end()
            if self._next:
                return False
            if self._stop.is_set():
                raise Stopped
            message = self._inbox.take(_WAIT)
            if message is None:
                return True
        if not self._batcher.fits(message):
            self._inbox.put_back(message)
            return self._end()
        row = self._batcher.accept(message)
        if row:
            self._next.append(row)
            self._size += len(row)
        elif isinstance(message, Commit) and (self._batcher.is_full or self._stop.is_set()):
            return self._end()
        return True

    def _end(self) -> bool:
        self._next.append(COPY_TRAILER)
        self._ended = True
        return False
