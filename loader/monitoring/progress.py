"""Progress of `loader run`: a line in the log at intervals."""

from __future__ import annotations

import logging
import threading
import time

from loader.capture.events import Event, Failed, Following, RunState
from waltally import lsn
from waltally.limits import limits
from waltally.units import duration, plural, size

log = logging.getLogger("loader")

_IDLE_LOG_SECONDS = 300.0
"""How often an idle loader logs a line, to show that it works."""


class Progress:
    """Takes the events of a run, and logs how far it has come, in a thread of its own."""

    def __init__(self, run_state: RunState) -> None:
        self._run_state = run_state
        self._began = time.monotonic()
        self._not_following = "connecting"
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._log, name="progress", daemon=True)

    def __call__(self, event: Event) -> None:
        """Take an event."""
        match event:
            case Following():
                self._not_following = ""
            case Failed():
                self._not_following = "not connected, trying again"

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

    def _log(self) -> None:
        before, said_at = 0, time.monotonic()
        while not self._done.wait(limits.log_progress):
            now, open_since = time.monotonic(), self._run_state.open_since
            is_moving = self._run_state.changes > before
            if not is_moving and open_since is not None and now - open_since >= limits.log_progress:
                # A large transaction, or a target that does not answer: nothing else would show.
                log.info(
                    "a batch has been open for %s, nothing is lost", duration(now - open_since)
                )
            elif is_moving or now - said_at >= _IDLE_LOG_SECONDS:
                log.info(self._not_following or self._line(before))
                said_at = now
            before = self._run_state.changes

    def _line(self, before: int) -> str:
        """Return how far the run has come; it had stored `before` changes at the last look."""
        state = self._run_state
        newest = "no change yet"
        if state.newest_commit_at is not None:
            newest = f"newest change {duration(time.time() - state.newest_commit_at)} ago"
        rate = (state.changes - before) / limits.log_progress
        return (
            f"{newest}, lag {size(state.lag_bytes)}, {rate:,.0f}/s, "
            f"{plural(state.changes, 'change')}, position {lsn.show(state.position.stored)}"
        )
