"""Stored positions that must not be confirmed yet. Pure.

Where the record of the position is in the source's own WAL, a standby copies the slot's position
without its record, if the record's WAL has not arrived there yet. Promoted then, it would have a
slot beyond its record. The source sends nothing that its standbys lack
(synchronized_standby_slots), so what has come back is there.
"""

from __future__ import annotations

from collections import deque


class HeldPositions:
    """Holds positions back until the WAL that has their record has come back."""

    def __init__(self) -> None:
        self._held: deque[tuple[int, int]] = deque()

    def hold(self, wal_end: int, position: int) -> None:
        """Hold the position back whose record is before `wal_end`; both ascend."""
        self._held.append((wal_end, position))

    def wanted(self, until: int) -> int:
        """Return how far to receive so that something received to `until` is confirmed too."""
        return max(until, self._held[0][0]) if self._held else until

    def take(self, received_lsn: int) -> int | None:
        """Return the newest position whose record is before `received_lsn`, once; else None."""
        position = None
        while self._held and self._held[0][0] <= received_lsn:
            position = self._held.popleft()[1]
        return position
