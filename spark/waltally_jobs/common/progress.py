"""Prints lines for people, and how far Spark is: a line every ten seconds, a bar on a terminal."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from waltally.errors import LoaderError
from waltally.escapes import escaped
from waltally.units import duration

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SECONDS = 10.0
"""How long nothing is shown in a log, so that what is short says nothing."""
_BAR_SECONDS = 0.5
_WIDTH = 30


def print_lines(lines: Iterable[str], err: bool = False) -> None:
    """Print lines for people, each of which stays one. `err`: to standard error."""
    for line in lines:
        print(escaped(line), file=sys.stderr if err else sys.stdout, flush=True)


def print_status(text: str) -> None:
    """Print a line of progress."""
    print_lines([text], err=True)


def polls(
    deadline: float,
    overdue: Callable[[], LoaderError],
    say: Callable[[], object],
    silent: float = _SECONDS,
    pause: float = 0.1,
) -> Iterator[None]:
    """Yield at once and after each pause; call `say` after `silent` and then every ten seconds.

    Raises what `overdue` gives after the deadline, a time of `time.monotonic`.
    """
    next_at = time.monotonic() + silent
    while True:
        yield
        now = time.monotonic()
        if now > deadline:
            raise overdue()
        if now >= next_at:
            next_at = now + _SECONDS
            say()
        time.sleep(pause)


class Progress:
    """Says how many of so many tasks are done, how many rows a second that is, and what is left.

    With `is_bar` as a bar that is drawn again, else as lines.
    """

    def __init__(
        self,
        what: str,
        tasks: int,
        rows: int,
        is_bar: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._what, self._tasks, self._rows = what, tasks, rows
        self._is_bar, self._clock = is_bar, clock
        self._begun = self._shown_at = clock()

    def show(self, done: int) -> None:
        """Show how far it is, where that is due."""
        now = self._clock()
        if now - self._shown_at < (_BAR_SECONDS if self._is_bar else _SECONDS):
            return
        self._shown_at = now
        line = self._line(min(done / self._tasks, 1.0), now - self._begun)
        if self._is_bar:
            print(f"\r\x1b[K{escaped(line)}", end="", file=sys.stderr, flush=True)
        else:
            print_status(line)

    def end(self) -> None:
        """Take the bar away."""
        if self._is_bar:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    def _line(self, share: float, seconds: float) -> str:
        words = [f"{self._what}: {share:.0%}"]
        if self._is_bar:
            full = round(share * _WIDTH)
            words = [f"[{'#' * full}{'.' * (_WIDTH - full)}] {words[0]}"]
        if self._rows:
            words[0] += f" of about {self._rows:,} rows"
            words.append(f"{share * self._rows / max(seconds, 0.001):,.0f} rows/s")
        if 0 < share < 1:
            words.append(f"about {duration(seconds / share - seconds)} left")
        return ", ".join(words)


@contextlib.contextmanager
def shown(spark: SparkSession, what: str, tasks: int, rows: int = 0) -> Iterator[None]:
    """Show within the block how far the tasks of Spark are, which read about so many rows."""
    # Executors import this module, and not what only a driver has.
    from waltally_jobs.common import submitted

    progress = Progress(what, max(tasks, 1), rows, sys.stderr.isatty())
    ended = threading.Event()

    def show(done: Callable[[], int]) -> None:
        while not ended.wait(_BAR_SECONDS):
            progress.show(done())

    with submitted.tasks_done(spark, what) as done:
        thread = threading.Thread(target=show, args=(done,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
            progress.end()
