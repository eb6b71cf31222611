"""How far the stream of a slot has come. Pure.

All three are positions in the source's WAL. The server is told only of the confirmed one, so it
never passes what is stored.
"""

from __future__ import annotations

from collections import deque


class Position:
    """Confirmed, stored and received, in this order: none passes the next one.

    The thread that stores moves it; the thread that reads sends `confirmed` to the server.
    """

    def __init__(self, stored: int = 0) -> None:
        self.received = stored
        """Everything that commits before it has arrived."""
        self.stored = stored
        """The position of record: everything that commits before it is in the change log."""
        self.confirmed = stored
        """What the server is told: it sends nothing before that again."""
        self._held: deque[tuple[int, int]] = deque()

    def receive(self, position: int) -> None:
        """Note that everything that commits before the position has arrived."""
        self.received = max(self.received, position)

    def store(self, record_end: int | None = None) -> None:
        """Note that everything received is durable, with the position of record.

        It may be confirmed at once; with `record_end`, see `hold`.
        """
        self.stored = self.received
        if record_end is None:
            self.confirmed = self.stored
        else:
            self.hold(record_end)

    def hold(self, record_end: int) -> None:
        """Confirm what is stored only once the WAL before `record_end` has come back.

        Where the record of the position is in the source's own WAL, a standby that copies the slot
        could have the slot's position before the record, and be followed after its promotion. The
        source sends nothing that such standbys lack, so what has come back is there.
        """
        self._held.append((record_end, self.stored))

    def confirm_held(self) -> None:
        """Confirm the held positions whose record has come back."""
        while self._held and self._held[0][0] <= self.received:
            self.confirmed = max(self.confirmed, self._held.popleft()[1])

    def to_receive(self, until: int) -> int:
        """Return how far to receive so that something received to `until` is confirmed too."""
        return max(until, self._held[0][0]) if self._held else until
