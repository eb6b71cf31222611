"""A queue from the thread that reads the slot to the thread that stores: bounded in bytes."""

from __future__ import annotations

from collections import deque
from threading import Condition

from loader.capture.messages import Message

CAPACITY = 8 * 1024 * 1024
"""Bytes of payload that may wait; a single larger value passes alone."""


class MessageQueue:
    """Bundles of messages; one thread puts, one takes."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._capacity = capacity
        self._bundles: deque[tuple[list[Message], int]] = deque()
        self._waiting = 0
        self._failure: BaseException | None = None
        self._changed = Condition()

    def put(self, bundle: list[Message], size: int, timeout: float) -> bool:
        """Add a bundle of `size` bytes; False if there was no room within `timeout` seconds."""
        with self._changed:
            if not self._changed.wait_for(self._has_room, timeout):
                return False
            self._bundles.append((bundle, size))
            self._waiting += size
            self._changed.notify_all()
            return True

    def fail(self, error: BaseException) -> None:
        """Let `take` raise this once everything that came before is taken."""
        with self._changed:
            self._failure = error
            self._changed.notify_all()

    def take(self, timeout: float = 0.0) -> list[Message]:
        """Return the oldest bundle, empty if none came within `timeout` seconds.

        Raises the error given to `fail`.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._bundles or self._failure, timeout)
            if self._bundles:
                bundle, size = self._bundles.popleft()
                self._waiting -= size
                self._changed.notify_all()
                return bundle
            if self._failure is not None:
                raise self._failure
            return []

    def _has_room(self) -> bool:
        return self._waiting < self._capacity
