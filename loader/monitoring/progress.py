"""Progress of `loader run`: a line in the log at intervals."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from loader.capture.events import BuildBroke, Building, Built, Event, Failed, Following, RunState
from waltally import lsn
from waltally.limits import limits
from waltally.units import duration, plural, size

log = logging.getLogger("loader")

_IDLE_LOG_SECONDS = 300.0
"""How often an idle loader logs a line, to show that it works."""
_LONG_BUILD_SECONDS = 2.0
"""A shorter build is not mentioned: there may be two in each second."""


class Progress:
    """Takes the events of a run, and logs how far it has come, in a thread of its own."""

    def __init__(self, run_state: RunState, clock: Callable[[], float] = time.monotonic) -> None:
        self._run_state = run_state
        self._clock = clock
        self._began = clock()
        self._not_following = "connecting"
        self._building_since: float | None = None
        self._last_build: tuple[str, float] | None = None
        self._is_stopping = False
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._log, name="progress", daemon=True)

    def __call__(self, event: Event) -> None:
        """Take an event."""
        match event:
            case Following():
                self._not_following = ""
            case Failed():
                self._not_following = "not connected, trying again"
            case Building():
                self._building_since = self._clock()
                if self._is_stopping:
                    log.info("stopping after this build")
            case Built() | BuildBroke():
                outcome = "built" if isinstance(event, Built) else "the last build failed"
                self._last_build = outcome, self._clock()
                self._building_since = None

    def stop(self) -> None:
        """Log that the run stops, and what it still waits for."""
        self._is_stopping = True
        is_building = self._building_since is not None
        log.info("stopping after this build" if is_building else "stopping")

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
            duration(self._clock() - self._began),
            f", position {lsn.show(state.position.stored)}" if state.position.stored else "",
        )

    def _log(self) -> None:
        before, said_at = 0, self._clock()
        while not self._done.wait(limits.log_progress):
            now, open_since = self._clock(), self._run_state.open_since
            is_moving = self._run_state.changes > before
            if not is_moving and open_since is not None and now - open_since >= limits.log_progress:
                # A large transaction, or a target that does not answer: nothing else would show.
                log.info(
                    "a batch has been open for %s, nothing is lost", duration(now - open_since)
                )
            elif is_moving or self._builds_long(now) or now - said_at >= _IDLE_LOG_SECONDS:
                log.info(self.line(before, limits.log_progress))
                said_at = now
            before = self._run_state.changes

    def _builds_long(self, now: float) -> bool:
        since = self._building_since
        return since is not None and now - since > _LONG_BUILD_SECONDS

    def line(self, before: int, seconds: float) -> str:
        """Return how far the run has come; it had stored `before` changes `seconds` ago."""
        state = self._run_state
        if self._not_following:
            return self._not_following
        newest = "no change yet"
        if state.newest_commit_at is not None:
            newest = f"newest change {duration(time.time() - state.newest_commit_at)} ago"
        parts = [
            newest,
            f"lag {size(state.lag_bytes)}",
            self._build(),
            f"{(state.changes - before) / seconds:,.0f}/s",
            plural(state.changes, "change"),
            f"position {lsn.show(state.position.stored)}",
        ]
        return ", ".join(part for part in parts if part)

    def _build(self) -> str:
        """Return what the builds are at; empty before the first one."""
        # Another thread takes the events, so each is read once.
        now, since, last = self._clock(), self._building_since, self._last_build
        if since is not None and (last is None or now - since > _LONG_BUILD_SECONDS):
            last = ("a build began", since)
        return "" if last is None else f"{last[0]} {duration(now - last[1])} ago"
