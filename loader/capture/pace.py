"""When a batch begins, and when the position moves although no change came. Pure."""

from __future__ import annotations

from loader.capture.events import RunState
from waltally.limits import limits

_FEW_CHANGES = 1_000
_LONGEST_GATHERING = 0.03
_IDLE_BYTES = 1024


class Pace:
    """How long changes gather before a batch: until shortly before the next build can take it.

    A batch has a fixed cost, and one that is stored earlier would only wait for its build.
    """

    def __init__(self, run_state: RunState) -> None:
        self._run_state = run_state
        self._seconds = 0.0
        self._changes = 0

    def note(self, changes: int, seconds: float) -> None:
        """Take how many changes a batch had, and how long it took."""
        self._seconds, self._changes = seconds, changes

    def seconds_left(self, now: float) -> float:
        """Return for how long to let changes gather; 0 after a batch that had many."""
        if self._changes > _FEW_CHANGES:
            return 0.0
        state = self._run_state
        until = min(state.apply_due_at - self._seconds, state.stored_at + _LONGEST_GATHERING)
        return max(0.0, until - now)


class Idle:
    """When the position moves although no change came."""

    def __init__(self, run_state: RunState) -> None:
        self._run_state = run_state
        self.own_wal_end = 0
        """Where the WAL of the source ended after our own last write to it; 0 where none was."""

    def is_over(self, now: float, holds_much: bool) -> bool:
        """Return whether the source wrote WAL without changes for us, so the slot should follow.

        Moving the position writes WAL too. If that counted, an idle loader would follow its own
        writes for ever. But where the slot holds much back, what comes next may be the small record
        after which it lets go.
        """
        position = self._run_state.position
        step = position.received - max(position.stored, self.own_wal_end)
        least = 0 if holds_much else _IDLE_BYTES
        is_due = now - self._run_state.stored_at >= limits.idle_seconds
        return step > limits.burst_wal or (step > least and is_due)
