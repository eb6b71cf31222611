"""Has the database apply what is staged: after each batch, and whenever a model can move."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from contextlib import closing

from loader.applying.pace import Pace
from loader.capture.events import (
    BuildBroke,
    Built,
    Committed,
    Event,
    Notify,
    RunState,
    ignore,
)
from loader.staging.records import ModelState, say_states
from loader.staging.target_state import APPLIER, apply, newest_age, newest_rejections
from waltally import lsn
from waltally.database import Target, connect_target
from waltally.errors import BuildFailed, LoaderError, unexpected
from waltally.limits import limits
from waltally.settings import Settings

log = logging.getLogger("loader")

THREADS = _CAUGHT_UP, _CATCHING_UP = "caught up", "catching up"
_AGE_SECONDS = 0.1
"""How often to ask how old the newest change is: the question costs a tenth of a small batch."""


def apply_once(settings: Settings, notify: Notify = ignore) -> None:
    """Apply what is staged. Raises LoaderError; BuildFailed where a model failed."""
    started = time.monotonic()
    with closing(_connect(settings)) as target:
        before = newest_rejections(target)
        states = apply(target)
        while any(model.is_behind for model in states):
            last, states = states, apply(target)
            if states == last:
                # Another session has locked what is to catch up.
                time.sleep(limits.look_behind)
        _say_rejections(before, newest_rejections(target))
    for model in states:
        if model.state == "waits":
            log.info("%s\nTry: %s", model, model.remedy)
    notify(Built(time.monotonic() - started, {}))
    for model in states:
        if isinstance(error := model.error, BuildFailed):
            raise error


class Applier:
    """Two threads that call cdc.apply: one for the models that have caught up, one for others.

    So a rebuild or a failing model does not make the others older. What fails is tried again,
    while the loader goes on staging.
    """

    def __init__(
        self,
        settings: Settings,
        run_state: RunState,
        notify: Notify = ignore,
        share: float = 1.0,
    ) -> None:
        """`share`: at most so much of a core the models that follow may take, from 0 to 1."""
        self._settings = settings
        self._run_state = run_state
        self._notify = notify
        self._pace = Pace(share)
        self._stop = threading.Event()
        self._is_due = threading.Event()
        self._targets: dict[str, Target] = {}
        """By thread, its session."""
        self._threads = [
            threading.Thread(target=run, name=name, daemon=True)
            for name, run in zip(THREADS, (self._follow, self._help), strict=True)
        ]
        self._states: list[ModelState] = []
        self._reported: dict[str, tuple[str, str | None]] = {}
        self._rejected: dict[str, int] = {}
        self._applied: int | None = None
        self._age_due = 0.0
        self._round = 0.0
        """Seconds from the begin of a build to that of the next, where one is due."""

    def start(self) -> None:
        """Begin, with what is staged already."""
        self._is_due.set()
        for thread in self._threads:
            thread.start()

    def notice(self, event: Event) -> None:
        """Take an event of the run: a batch that is staged has to be applied."""
        if isinstance(event, Committed) and event.changes:
            self._is_due.set()

    def close(self) -> None:
        """Apply what is still staged, then end; a call that takes long is cancelled."""
        self._stop.set()
        self._is_due.set()
        deadline = time.monotonic() + limits.stop_apply
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
            while thread.is_alive():
                target = self._targets.get(thread.name)
                if target is not None and not target.closed:
                    target.cancel()
                thread.join(limits.look_behind)
        for target in self._targets.values():
            target.close()

    def _target(self, thread: str) -> Target:
        """Return the thread's session: the target may be down at the start, and later."""
        if thread not in self._targets or self._targets[thread].closed:
            self._targets[thread] = _connect(self._settings)
        return self._targets[thread]

    def _follow(self) -> None:
        """Bring the models that follow to each batch that is staged."""
        is_last = False
        while not is_last:
            self._is_due.wait()
            self._is_due.clear()
            is_last = self._stop.is_set()
            try:
                is_more, pause = self._apply_caught_up()
            except Exception as failure:
                # Any exception: staging must go on, or the slot would hold WAL because of a model.
                is_more, pause = True, limits.apply_again
                self._report(failure)
                if is_last:
                    return
            if is_more:
                self._is_due.set()
                is_last = False
            # Batches that are staged meanwhile are applied together.
            self._stop.wait(pause)

    def _help(self) -> None:
        """Have the models that catch up come to the others."""
        while not self._stop.is_set():
            try:
                is_more = self._apply_catching_up()
                before, self._rejected = (
                    self._rejected,
                    newest_rejections(self._target(_CATCHING_UP)),
                )
                _say_rejections(before, self._rejected)
                pause = 0.0 if is_more else limits.look_behind
            except Exception as failure:
                self._report(failure)
                pause = limits.apply_again
            self._stop.wait(pause)

    def _apply_caught_up(self) -> tuple[bool, float]:
        """Return whether there is more to apply, and for how many seconds to pause."""
        started = time.monotonic()
        self._run_state.apply_due_at = started + self._round
        states = apply(self._target(_CAUGHT_UP), "caught up")
        busy = time.monotonic() - started
        applied = max((model.applied_lsn or 0 for model in states), default=0)
        ages: dict[str, float] = {}
        if self._applied and applied > self._applied and started >= self._age_due:
            age = newest_age(self._target(_CAUGHT_UP), self._applied, applied)
            ages = {} if age is None else {model.relation: age for model in states}
            self._age_due = started + _AGE_SECONDS
        self._applied = applied
        seconds = time.monotonic() - started
        log.debug("built in %.3f s", seconds)
        self._notify(Built(seconds, ages))
        is_more = any(model.is_behind for model in states)
        pause = self._pace.pause(started + busy, busy)
        if is_more:
            pause = 0.0
        self._round = self._pace.mean + pause
        self._run_state.apply_due_at = started + seconds + pause
        return is_more, pause

    def _apply_catching_up(self) -> bool:
        """Return whether there is more to apply at once: not what another session has locked."""
        states = apply(self._target(_CATCHING_UP), "catching up")
        former, self._states = self._states, states
        # What is over a moment later, as between a seed and its build, is not said.
        lasting = {(model.relation, model.state, model.reason) for model in former}
        changed = []
        for model in states:
            now = model.state, model.reason
            is_new = now != self._reported.get(model.relation, ("follows", None))
            if is_new and (model.relation, *now) in lasting:
                self._reported[model.relation] = now
                # What the next call or a seed that runs does needs nobody.
                if model.state != "waits" or model.is_finding:
                    changed.append(model)
        _log_states(changed)
        if states != former or any(model.state == "waits" for model in states):
            # One that has come to follow may lack what was staged meanwhile, and one that waits may
            # wait for the others to come up to its baseline, where nothing is staged for them.
            self._is_due.set()
        more = [model for model in states if model.is_behind]
        return bool(more) and more != [model for model in former if model.is_behind]

    def _report(self, failure: Exception) -> None:
        error = failure if isinstance(failure, LoaderError) else unexpected(failure)
        if error is not failure:
            log.debug("the call broke", exc_info=failure)
        if self._stop.is_set():
            log.info("what is staged waits for the next loader: %s", error)
            return
        # The remedy comes last: what followed it would be pasted with its SQL.
        remedy = [error.remedy] if error.remedy else []
        message = "%s; trying again in %g s" + "\nTry: %s" * len(remedy)
        log.error(message, error, limits.apply_again, *remedy)
        self._notify(BuildBroke(error))


def _connect(settings: Settings) -> Target:
    target = connect_target(settings)
    # Models and watermarks are one transaction: a server that loses the last ones loses both, and
    # the log still has the changes. What relies on a watermark commits later in the same WAL.
    target.ask("set synchronous_commit to off")
    target.ask(f"set application_name to '{APPLIER}'")
    return target


def _log_states(models: Sequence[ModelState]) -> None:
    for model in models:
        if model.state == "follows":
            log.info("%s follows%s", model.name, f"; {model.reason}" if model.reason else "")
    for level, state in ((logging.WARNING, "waits"), (logging.ERROR, "failed")):
        for _, clause, remedy in say_states(model for model in models if model.state == state):
            log.log(level, "%s\nTry: %s", clause, remedy)


def _say_rejections(before: dict[str, int], now: dict[str, int]) -> None:
    for model, rejected in now.items():
        if rejected > before.get(model, 0):
            log.warning(
                "%s could not count some changes, the newest at %s\nTry: `loader status`",
                model,
                lsn.show(rejected),
            )
