"""What one thread has read and the other has not yet stored: a queue bounded in bytes."""

from __future__ import annotations

from collections import deque
from threading import Condition

from loader.protocol import Keepalive
from loader.wal2json import Begin, Change, Commit

Message = Begin | Change | Commit | Keepalive

CAPACITY = 8 * 1024 * 1024
"""Bytes of payload that may wait; one larger value passes alone."""


class Inbox:
    """Bundles of messages from one reading thread to one storing thread."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._capacity = capacity
        self._bundles: deque[tuple[list[Message], int]] = deque()
        self._waiting = 0
        self._failure: BaseException | None = None
        self._changed = Condition()
        self._taken: deque[Message] = deque()

    def offer(self, bundle: list[Message], size: int, timeout: float) -> bool:
        """Hand over a bundle of so many bytes; False where there was no room in `timeout` s."""
        with self._changed:
            if not self._changed.wait_for(self._has_room, timeout):
                return False
            self._bundles.append((bundle, size))
            self._waiting += size
            self._changed.notify_all()
            return True

    def fail(self, error: BaseException) -> None:
        """Let the storing thread raise this once it has taken what came before."""
        with self._changed:
            self._failure = error
            self._changed.notify_all()

    def take(self, timeout: float = 0.0) -> Message | None:
        """Return the next message, None where none came in `timeout` s. Raises what `fail` got."""
        if not self._taken and not self._refill(timeout):
            return None
        return self._taken.popleft()

    @property
    def ready(self) -> deque[Message]:
        """What `take` returns without waiting; the storing thread may take from its head."""
        return self._taken

    def put_back(self, message: Message) -> None:
        """Undo a `take`."""
        self._taken.appendleft(message)

    def _refill(self, timeout: float) -> bool:
        with self._changed:
            self._changed.wait_for(lambda: self._bundles or self._failure, timeout)
            if self._bundles:
                bundle, size = self._bundles.popleft()
                self._waiting -= size
                self._changed.notify_all()
                self._taken.extend(bundle)
                return True
            if self._failure is not None:
                raise self._failure
            return False

    def _has_room(self) -> bool:
        return self._waiting < self._capacity
