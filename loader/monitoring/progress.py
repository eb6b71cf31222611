"""Progress of `loader run`: a living line on a terminal, a plain one at intervals in a log."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from loader.capture.events import BuildBroke, Building, Built, Event, Failed, Following, RunState
from waltally import lsn
from waltally.escapes import escaped
from waltally.units import duration, plural, size

_LONG_BUILD_SECONDS = 2.0
"""A shorter build is not worth a word of its own: there may be two in each second."""


class Stage:
    """Takes the events of a run and says in words what it is doing."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.following = "connecting"
        """Why nothing is read, empty where the slot is followed."""
        self._building_since: float | None = None
        self._last: tuple[str, float] | None = None

    def __call__(self, event: Event) -> None:
        """Take an event."""
        match event:
            case Following():
                self.following = ""
            case Failed():
                self.following = "not connected, trying again"
            case Building():
                self._building_since = self._clock()
            case Built() | BuildBroke():
                is_built = isinstance(event, Built)
                self._last = ("built" if is_built else "the last build failed", self._clock())
                self._building_since = None

    @property
    def is_building(self) -> bool:
        """Whether a build is under way."""
        return self._building_since is not None

    @property
    def builds_long(self) -> bool:
        """Whether the build that is under way takes long."""
        since = self._building_since
        return since is not None and self._clock() - since > _LONG_BUILD_SECONDS

    @property
    def build(self) -> str:
        """What the builds are at; empty before the first one, and in a run that does not build."""
        # Another thread takes the events, so each is read once.
        now, since, last = self._clock(), self._building_since, self._last
        if since is not None and (last is None or now - since > _LONG_BUILD_SECONDS):
            last = ("a build began", since)
        return "" if last is None else f"{last[0]} {duration(now - last[1])} ago"


if TYPE_CHECKING:
    from rich.console import Console

log = logging.getLogger("loader")

_LOG_SECONDS = 10.0
_IDLE_LOG_SECONDS = 300.0
"""An idle loader has little to say, but a silent log is no proof that it works."""
_TERMINAL_SECONDS = 0.5


class Progress:
    """Shows how far a run has come, in a thread of its own: on the terminal where there is one.

    It takes the events of the run.
    """

    def __init__(self, run_state: RunState, terminal: Console | None) -> None:
        self._run_state = run_state
        self._stage = Stage()
        self._is_stopping = False
        self._done = threading.Event()
        self._thread = threading.Thread(
            target=self._log if terminal is None else self._live,
            args=() if terminal is None else (terminal,),
            name="progress",
            daemon=True,
        )
        self._began = time.monotonic()

    def __call__(self, event: Event) -> None:
        """Take an event."""
        self._stage(event)
        if self._is_stopping and isinstance(event, Building):
            log.info("stopping after this build")

    def stop(self) -> None:
        """Say that the run has been told to stop, and what it still waits for."""
        self._is_stopping = True
        log.info(self._stopping)

    def __enter__(self) -> Progress:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, *_: object
    ) -> None:
        self._done.set()
        self._thread.join()
        if error is not None:
            return
        state = self._run_state
        log.info(
            "stored %s in %s over %s%s",
            plural(state.changes, "change"),
            f"{state.batches:,} batch{'' if state.batches == 1 else 'es'}",
            duration(time.monotonic() - self._began),
            f", position {lsn.show(state.position.stored)}" if state.position.stored else "",
        )

    def _live(self, terminal: Console) -> None:
        from rich.text import Text

        before = 0
        with terminal.status("connecting") as line:
            while not self._done.wait(_TERMINAL_SECONDS):
                said = self._stopping
                if not self._is_stopping:
                    said = self.line(before, _TERMINAL_SECONDS)
                line.update(Text(escaped(said), no_wrap=True, overflow="ellipsis"))
                before = self._run_state.changes

    def _log(self) -> None:
        before, said_at = 0, time.monotonic()
        while not self._done.wait(_LOG_SECONDS):
            now, since = time.monotonic(), self._run_state.open_since
            is_moving = self._run_state.changes > before
            if not is_moving and since is not None and now - since >= _LOG_SECONDS:
                # A large transaction, or a target that does not answer: nothing else would show.
                log.info("a batch has been open for %s, nothing is lost", duration(now - since))
            elif is_moving or self._stage.builds_long or now - said_at >= _IDLE_LOG_SECONDS:
                log.info(self.line(before, _LOG_SECONDS))
                said_at = now
            before = self._run_state.changes

    @property
    def _stopping(self) -> str:
        return "stopping after this build" if self._stage.is_building else "stopping"

    def line(self, before: int, seconds: float) -> str:
        """Return how far the run has come; it had stored `before` changes `seconds` ago."""
        state = self._run_state
        if self._stage.following:
            return self._stage.following
        newest = "no change yet"
        if state.newest_commit_at is not None:
            newest = f"newest change {duration(time.time() - state.newest_commit_at)} ago"
        parts = [
            newest,
            f"lag {size(state.lag_bytes)}",
            self._stage.build,
            f"{(state.changes - before) / seconds:,.0f}/s",
            plural(state.changes, "change"),
            f"position {lsn.show(state.position.stored)}",
        ]
        return ", ".join(part for part in parts if part)
