"""What `loader run` logs while it goes on, and when it is told to stop."""

from __future__ import annotations

import logging
import time

import pytest

from loader.capture.events import BuildBroke, Building, Built, Failed, Following, RunState
from loader.capture.position import Position
from loader.monitoring.progress import Progress
from waltally.errors import BuildFailed, CannotConnect


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def moving(clock: Clock) -> Progress:
    state = RunState(changes=1200, position=Position(0x20), wal_end=0x20 + 4200)
    progress = Progress(state, clock)
    progress(Following())
    return progress


def test_the_line_says_what_the_builds_are_at() -> None:
    clock = Clock()
    progress = moving(clock)

    def build() -> str:
        return progress.line(0, 10).split(", ")[2]

    assert build() == "120/s", "a run that does not build has no word of it"
    progress(Building())
    clock.now = 4.0
    assert build() == "a build began 4.0 s ago"
    progress(Built(4.0))
    clock.now = 4.3
    assert build() == "built 0.3 s ago"
    progress(Building())
    assert build() == "built 0.3 s ago", "a short build is not worth a word"
    clock.now = 7.3
    assert build() == "a build began 3.0 s ago"
    progress(BuildBroke(BuildFailed("no such column")))
    clock.now = 19.3
    assert build() == "the last build failed 12 s ago"


def test_a_run_that_follows_nothing_says_so() -> None:
    progress = Progress(RunState())
    assert progress.line(0, 10) == "connecting"
    progress(Following())
    assert progress.line(0, 10).startswith("no change yet, lag 0 bytes, ")
    progress(Failed(CannotConnect("away"), retried=True))
    assert progress.line(0, 10) == "not connected, trying again"


def test_the_line_has_the_newest_change_the_lag_and_the_position() -> None:
    state = RunState(changes=1200, position=Position(0x20), wal_end=0x20 + 4200)
    state.newest_commit_at = time.time() - 7200
    progress = Progress(state, Clock())
    progress(Following())
    assert progress.line(1000, 10).split(", ") == [
        "newest change 2.0 h ago",
        *("lag 4.2 kB", "20/s", "1,200 changes", "position 0/20"),
    ]


def test_a_stop_waits_for_the_build_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "loader")
    logging.getLogger("loader").propagate = True
    progress = moving(Clock())
    progress.stop()
    assert caplog.messages == ["stopping"]
    progress(Building())
    assert caplog.messages[1:] == ["stopping after this build"], "what was staged is built"
    progress.stop()
    assert caplog.messages[2:] == ["stopping after this build"]
