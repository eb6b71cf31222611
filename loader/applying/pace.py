"""How long to pause between two calls of cdc.apply: within a share of a core. Pure."""

from __future__ import annotations

from collections import deque

from waltally.limits import limits

WINDOW = 1.0


class Pace:
    """Spends a budget of seconds over the last second.

    A pause is that after an average call of the last second: a slow one is paid back bit by bit,
    and no change waits for it alone. While less than the budget is spent, pauses are shorter.
    """

    def __init__(self, share: float) -> None:
        """`share`: at most so much of a core the calls may take, from 0 to 1."""
        self._share = share
        self._calls: deque[tuple[float, float]] = deque()
        """When each call of the last second ended, and how long it took."""

    @property
    def mean(self) -> float:
        """Seconds that a call of the last second took; 0 without one."""
        return self._spent / len(self._calls) if self._calls else 0.0

    def pause(self, ended: float, seconds: float) -> float:
        """Take a call that ended now, on the monotonic clock; return for how long to pause."""
        self._calls.append((ended, seconds))
        while self._calls[0][0] < ended - WINDOW:
            self._calls.popleft()
        spent = self._spent / (self._share * WINDOW)
        return min(limits.longest_pause, self.mean * (1 / self._share - 1) * spent)

    @property
    def _spent(self) -> float:
        return sum(seconds for _, seconds in self._calls)
