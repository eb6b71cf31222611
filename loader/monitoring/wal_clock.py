"""Turns a lag in bytes into seconds: it remembers when the WAL ended where. Pure."""

from __future__ import annotations

from bisect import bisect_right

from loader.source.state import IDLE_WAL_BYTES

_MOST_POINTS = 1000


class WalClock:
    """Where the WAL ended at some moments. Between two of them it is assumed to grow evenly."""

    def __init__(self) -> None:
        self._points: list[tuple[int, float]] = []
        """Position and moment, both ascending."""

    def add_earlier(self, moment: float, position: int) -> None:
        """Add a point before the first one; a later point is ignored."""
        if not self._points or (position < self._points[0][0] and moment < self._points[0][1]):
            self._points.insert(0, (position, moment))

    def add(self, moment: float, wal_end: int) -> None:
        """Note where the WAL ends now."""
        points = self._points
        if points and wal_end < points[-1][0]:
            points.clear()  # another server's WAL, or an older one
        if len(points) > 1 and points[-2][0] == wal_end:
            points.pop()
        points.append((wal_end, moment))
        if len(points) > _MOST_POINTS:
            del points[1:-1:2]

    def seconds_behind(self, position: int, now: float) -> float:
        """Return how long ago the WAL ended at the position; 0 where little lies beyond it."""
        points = self._points
        if not points or points[-1][0] - position <= IDLE_WAL_BYTES:
            return 0.0
        after = bisect_right(points, (position, float("inf")))
        if after == 0:
            return max(0.0, now - points[0][1])
        (low, low_at), (high, high_at) = points[after - 1], points[after]
        return max(0.0, now - (low_at + (high_at - low_at) * (position - low) / (high - low)))
