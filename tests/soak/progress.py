"""What a soak prints while it runs: lines in a log, one line that is rewritten on a terminal."""

from __future__ import annotations

import sys

from tests.soak.plan import Plan

_ERASE_LINE = "\r\033[K"


class Progress:
    """Prints where one system's plan stands, to stderr."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._is_terminal = sys.stderr.isatty()

    def fault(self, number: int, name: str, seconds: float) -> None:
        """Say which fault begins; on a terminal the next line replaces this one."""
        done = number - 1
        count = "" if self._plan.fault_count is None else f" of {self._plan.fault_count}"
        left = _minutes(self._plan.seconds_left(done, seconds))
        line = f"{self._prefix(seconds)} fault {number}{count}, about {left} left: {name}"
        if self._is_terminal:
            print(f"{_ERASE_LINE}{line}", end="", file=sys.stderr, flush=True)
        else:
            print(line, file=sys.stderr, flush=True)

    def check(self, number: int, changes: int, seconds: float) -> None:
        """Say that a check has found everything right."""
        erase = _ERASE_LINE if self._is_terminal else ""
        print(
            f"{erase}{self._prefix(seconds)} check {number}: {changes:,} changes, no difference",
            file=sys.stderr,
            flush=True,
        )

    def close(self) -> None:
        """Leave an empty line on a terminal to what is printed next."""
        if self._is_terminal:
            print(_ERASE_LINE, end="", file=sys.stderr, flush=True)

    def _prefix(self, seconds: float) -> str:
        return f"seed {self._plan.seed} {_minutes(seconds)}"


def _minutes(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"
