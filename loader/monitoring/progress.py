"""Progress of `loader run`: one live line on a terminal, plain lines in a log."""

from __future__ import annotations

import logging
import threading
import time
from types import TracebackType
from typing import TYPE_CHECKING

from loader.capture.run_state import RunState
from waltally import lsn

if TYPE_CHECKING:
    from rich.console import Console

log = logging.getLogger("loader")

_LOG_SECONDS = 10.0
_TERMINAL_SECONDS = 0.5


class Progress:
    """Shows how far a run has come, in a thread of its own: on the terminal where there is one."""

    def __init__(self, run_state: RunState, terminal: Console | None) -> None:
        self._run_state = run_state
        self._done = threading.Event()
        self._thread = threading.Thread(
            target=self._log if terminal is None else self._live,
            args=() if terminal is None else (terminal,),
            name="progress",
            daemon=True,
        )
        self._began = time.monotonic()

    def __enter__(self) -> Progress:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._done.set()
        self._thread.join()
        if error is not None:
            return
        log.info(
            "stored %d changes in %d batches over %.1f s, position %s",
            self._run_state.changes,
            self._run_state.batches,
            time.monotonic() - self._began,
            lsn.show(self._run_state.position_lsn),
        )

    def _live(self, terminal: Console) -> None:
        before = 0
        with terminal.status("following the slot") as line:
            while not self._done.wait(_TERMINAL_SECONDS):
                line.update(self._line(before, _TERMINAL_SECONDS))
                before = self._run_state.changes

    def _log(self) -> None:
        before = 0
        while not self._done.wait(_LOG_SECONDS):
            if self._run_state.changes > before:
                log.info(self._line(before, _LOG_SECONDS))
            elif since := self._run_state.open_since:
                # A large transaction, or a target that does not answer: nothing else would show.
                open_for = time.monotonic() - since
                if open_for >= _LOG_SECONDS:
                    log.info("a batch has been open for %.0f s, nothing is lost", open_for)
            before = self._run_state.changes

    def _line(self, before: int, seconds: float) -> str:
        changes = self._run_state.changes
        rate = (changes - before) / seconds
        return (
            f"{changes:,} changes, {rate:,.0f}/s, position {lsn.show(self._run_state.position_lsn)}"
        )
