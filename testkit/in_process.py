"""A loader in a thread of the test, so that a test can lower its limits and see what it logs."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from loader.capture.events import RunState
from loader.capture.follow import follow
from testkit.commands import wait_until
from testkit.pipeline import Pipeline
from waltally.errors import LoaderError
from waltally.settings import Settings


class Background(logging.Handler):
    """`loader run` in a thread, and what it has logged."""

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self.failure: LoaderError | None = None
        self._settings = settings
        self._lines: list[str] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def emit(self, record: logging.LogRecord) -> None:
        self._lines.append(record.getMessage())

    @property
    def said(self) -> str:
        return "\n".join(self._lines)

    @property
    def sessions(self) -> int:
        return self.said.count("following the slot")

    def wait_until_following(self, times: int = 1) -> None:
        """Return once it has begun to stream so often."""
        wait_until(lambda: self.sessions >= times, f"it follows: {self.said}")

    def wait_for(self, words: str, times: int = 1) -> None:
        """Return once it has logged the words so often."""
        wait_until(lambda: self.said.count(words) >= times, words)

    def _run(self) -> None:
        try:
            follow(self._settings, self._stop, RunState(), once=False)
        except LoaderError as error:
            self.failure = error

    def begin(self) -> None:
        self._thread.start()

    def end(self) -> None:
        self._stop.set()
        self._thread.join()


@contextmanager
def background(pipeline: Pipeline) -> Iterator[Background]:
    """A loader that ends with the block."""
    running = Background(pipeline.loader_settings)
    logger = logging.getLogger("loader")
    level = logger.level
    logger.addHandler(running)
    logger.setLevel(logging.INFO)
    running.begin()
    try:
        yield running
    finally:
        running.end()
        logger.removeHandler(running)
        logger.setLevel(level)
