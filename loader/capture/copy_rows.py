"""The only consumer of what the reader has read: COPY takes one batch of rows after another.

Rows pass through and are never gathered, so a large transaction takes no more memory than a small
one.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from threading import Event

from loader.capture.batches import COPY_HEADER, COPY_TRAILER, Batcher
from loader.capture.wal2json import Commit, Keepalive, Message
from waltally import failpoints

_CHUNK = 256 * 1024
_WAIT = 0.25
_GRACE_SECONDS = 0.5
"""How long a stopping loader waits for the end of a transaction, to keep a short one."""


class Stopped(Exception):
    """The loader has to stop in the middle of a source transaction."""


class CopyRows:
    """The file that COPY reads.

    A batch ends at a source commit: when it is full, or when nothing more has arrived.
    """

    def __init__(
        self, take: Callable[[float], list[Message]], batcher: Batcher, stop: Event
    ) -> None:
        """`take` waits so many seconds for messages and raises what broke the reading."""
        self._take_bundle = take
        self._batcher = batcher
        self._stop = stop
        self._waiting: deque[Message] = deque()
        """Taken from the reader and not handled yet."""
        self._next: list[bytes] = []
        self._size = 0
        self._ended = True
        self._stop_seen = 0.0
        self.reply_wanted = False
        """Whether the last message that `begin` took asks for our position."""
        self.failure: BaseException | None = None
        """What broke the reading; COPY itself reports only that something did."""

    def begin(self, timeout: float) -> bool:
        """Take the next message and say whether it is the first row of a batch.

        Waits `timeout` seconds for one. Raises what the reader raised.
        """
        message = self._take(timeout)
        row = self._batcher.accept(message) if message is not None else b""
        self.reply_wanted = isinstance(message, Keepalive) and message.wants_reply
        if row:
            self._next = [COPY_HEADER, row]
            self._size = len(row)
            self._ended = False
        return bool(row)

    def read(self, _size: int) -> bytes:
        """Return the next piece of the batch, empty at its end.

        Raises Stopped and what the reader raised.
        """
        failpoints.reach("copy-chunk")
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

    def _take(self, timeout: float = 0.0) -> Message | None:
        if not self._waiting:
            self._waiting.extend(self._take_bundle(timeout))
        return self._waiting.popleft() if self._waiting else None

    def _stop_if_asked(self) -> None:
        """Give up a transaction that does not end soon, so that it cannot delay a stop."""
        if not self._stop.is_set():
            return
        self._stop_seen = self._stop_seen or time.monotonic()
        overdue = time.monotonic() - self._stop_seen >= _GRACE_SECONDS
        if overdue and self._batcher.in_transaction:
            raise Stopped

    def _advance(self) -> bool:
        """Take some messages; False if the rows so far should go out before waiting for more."""
        moved = self._batcher.move_changes(self._waiting, self._next, _CHUNK - self._size)
        if moved:
            self._size += moved
            return True
        message = self._take()
        if message is None:
            if not self._batcher.in_transaction:
                return self._end()
            if self._next:
                return False
            if self._stop.is_set():
                raise Stopped
            message = self._take(_WAIT)
            if message is None:
                return True
        if not self._batcher.fits(message):
            self._waiting.appendleft(message)
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
