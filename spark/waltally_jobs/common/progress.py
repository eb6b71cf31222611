"""Prints progress: one line that is rewritten on a terminal, plain lines in a log."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from waltally.escapes import escaped

_LOG_SECONDS = 10.0
_LOG_SHARE = 0.1
_MEANS_SOMETHING = 0.05
"""The share done from which on the time left is said: small ranges end first, and tell little."""


@dataclass(frozen=True)
class Measure:
    """Work done and in total, in any unit, and the rows read so far."""

    done: int
    total: int
    rows: int

    @property
    def share(self) -> float:
        """The part done, from 0 to 1."""
        return min(self.done / self.total, 1.0) if self.total else 0.0


def line(measure: Measure, seconds: float) -> str:
    """Return the progress as text; the time left assumes the rate so far."""
    rate = measure.rows / max(seconds, 0.001)
    words = [f"{measure.share:4.0%}", f"{measure.rows:,} rows read", f"{rate:,.0f} rows/s"]
    if _MEANS_SOMETHING <= measure.share < 1:
        words.append(f"about {seconds / measure.share - seconds:.0f} s left")
    return ", ".join(words)


def print_lines(lines: Iterable[str], err: bool = False) -> None:
    """Print lines for people, each of which stays one. `err`: to standard error."""
    for line in lines:
        print(escaped(line), file=sys.stderr if err else sys.stdout, flush=True)


def print_status(text: str) -> None:
    """Print a line of progress."""
    print_lines([text], err=True)


class Progress:
    """Prints `measure()` while the block runs; calls `watch` once per second, on its thread.

    Without `measure` it prints nothing.
    """

    def __init__(self, measure: Callable[[], Measure] | None, watch: Callable[[], None]) -> None:
        self._measure = measure
        self._watch = watch
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._start = time.monotonic()

    def __enter__(self) -> Progress:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        if kind is None and self._measure is not None:
            self._show(self._measure(), last=True)

    def _run(self) -> None:
        shown_at, shown_share = self._start, 0.0
        while not self._ended.wait(1.0):
            self._watch()
            if self._measure is None:
                continue
            measure, now = self._measure(), time.monotonic()
            due = now - shown_at >= _LOG_SECONDS or measure.share - shown_share >= _LOG_SHARE
            if due or sys.stderr.isatty():
                self._show(measure)
                shown_at, shown_share = now, measure.share

    def _show(self, measure: Measure, last: bool = False) -> None:
        text = line(measure, time.monotonic() - self._start)
        if sys.stderr.isatty():
            sys.stderr.write(f"\r\x1b[K{text}" + ("\n" if last else ""))
            sys.stderr.flush()
        else:
            print_status(text)
