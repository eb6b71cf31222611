"""Prints lines for people, and how far a long reading is."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable

from waltally.escapes import escaped
from waltally.units import duration, size

_SECONDS = 10.0
"""How long nothing is shown, so that what is short says nothing."""


def print_lines(lines: Iterable[str], err: bool = False) -> None:
    """Print lines for people, each of which stays one. `err`: to standard error."""
    for line in lines:
        print(escaped(line), file=sys.stderr if err else sys.stdout, flush=True)


def print_status(text: str) -> None:
    """Print a line of progress."""
    print_lines([text], err=True)


class Progress:
    """Says how much of `total` bytes is read, how fast, and how long the rest will take."""

    def __init__(self, total: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._total, self._clock = max(total, 1), clock
        self._done = 0
        self._start = self._shown_at = clock()

    def advance(self, read: int) -> None:
        """Print a line where one is due, after so many bytes more. The tables may have grown."""
        self._done += read
        now = self._clock()
        if now - self._shown_at >= _SECONDS:
            self._shown_at = now
            print_status(self._line(now - self._start))

    def _line(self, seconds: float) -> str:
        share = min(self._done / self._total, 1.0)
        words = [f"{share:4.0%} of {size(self._total)}", f"{size(self._done / seconds)}/s"]
        if 0 < share < 1:
            words.append(f"about {duration(seconds / share - seconds)} left")
        return ", ".join(words)
