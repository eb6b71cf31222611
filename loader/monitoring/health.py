"""Whether a run is alive and whether it follows: what `/healthz` and `/readyz` say. Pure."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from loader.capture.events import BuildBroke, Built, Event, Failed, Following, RunState
from waltally.errors import LoaderError
from waltally.limits import limits
from waltally.units import plural


@dataclass(frozen=True)
class Answer:
    """The answer to a probe."""

    is_good: bool
    line: str


class Health:
    """Takes the events of a run and judges them. Its answers wait for nothing.

    They hold only fixed words and numbers: no message of a server, which might quote a row.
    """

    def __init__(
        self,
        run_state: RunState,
        stop: threading.Event,
        threads: Iterable[str],
        lag_seconds: Callable[[], float | None],
        failed_models: Callable[[], int],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`threads` are the names of those that must run from the first event until `stop` is set.

        `lag_seconds` returns how far the position is behind the source; None where the source does
        not answer. `failed_models` returns how many could not be applied.
        """
        self._run_state = run_state
        self._stop = stop
        self._threads = tuple(threads)
        self._lag_seconds = lag_seconds
        self._failed_models = failed_models
        self._clock = clock
        self._has_begun = False
        self._not_following = "the slot is not streamed yet"
        self._has_built = False
        self._failed_build = ""

    def __call__(self, event: Event) -> None:
        """Take an event."""
        match event:
            case Following():
                self._not_following = ""
            case Failed(error, _):
                self._not_following = f"the slot is not streamed ({_meaning(error)})"
            case Built():
                self._has_built, self._failed_build = True, ""
            case BuildBroke(error):
                self._failed_build = f"the last build failed ({_meaning(error)})"
        self._has_begun = True

    def alive(self) -> Answer:
        """Say whether a restart would help: whether a thread has ended that should run.

        How long a thread waits is not judged, because it may wait for a server.
        """
        if self._has_begun and not self._stop.is_set():
            running = {thread.name for thread in threading.enumerate()}
            for name in self._threads:
                if name not in running:
                    return Answer(False, f"the thread {name!r} has ended")
        return Answer(True, "alive")

    def ready(self) -> Answer:
        """Say whether the slot is streamed and stored, and what is staged is applied."""
        if self._stop.is_set():
            return Answer(False, "the loader is stopping")
        reason = self._not_following or self._failed_build or self._failure() or self._stall()
        return Answer(not reason, reason or "following the slot")

    def _failure(self) -> str:
        # A run that does not build is not judged by failed models.
        failed = self._failed_models() if self._has_built else 0
        return f"{plural(failed, 'model')} could not be applied" if failed else ""

    def _stall(self) -> str:
        now = self._clock()
        open_since = self._run_state.open_since
        if open_since is not None and now - open_since > limits.stalled_seconds:
            return f"a batch has been open for {now - open_since:.0f} s"
        stored, lag = now - self._run_state.stored_at, self._lag_seconds() or 0.0
        if min(stored, lag) > limits.stalled_seconds:
            return f"nothing was stored for {stored:.0f} s, and the source has written since"
        return ""


def _meaning(error: LoaderError) -> str:
    meaning = (type(error).__doc__ or "").partition("\n")[0].rstrip(".")
    return f"{type(error).__name__}: {meaning}"
