"""What `loader run` prints while it goes on, and when it is told to stop."""

from __future__ import annotations

import logging
from types import SimpleNamespace

import pytest

from loader.capture.events import BuildBroke, Building, Built, Failed, Following, RunState
from loader.capture.position import Position
from loader.monitoring import progress as module
from loader.monitoring.progress import Progress, Stage
from waltally.errors import BuildFailed, CannotConnect


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_the_state_of_the_build_is_told() -> None:
    clock = Clock()
    stage = Stage(clock)
    assert (stage.build, stage.is_building) == ("", False)
    stage(Building())
    clock.now = 4.0
    assert (stage.build, stage.is_building) == ("a build began 4.0 s ago", True)
    stage(Built(4.0))
    clock.now = 4.3
    assert (stage.build, stage.is_building) == ("built 0.3 s ago", False)
    stage(Building())
    assert stage.build == "built 0.3 s ago", "a short build is not worth a word"
    clock.now = 7.3
    assert stage.build == "a build began 3.0 s ago"
    stage(BuildBroke(BuildFailed("no such column")))
    clock.now = 19.3
    assert stage.build == "the last build failed 12 s ago"
    stage(Building())
    stage(Built(0.1))
    assert stage.build == "built 0.0 s ago"


def test_a_run_that_follows_nothing_says_so() -> None:
    stage = Stage()
    assert stage.following == "connecting"
    stage(Following())
    assert stage.following == ""
    stage(Failed(CannotConnect("away"), retried=True))
    assert stage.following == "not connected, trying again"


@pytest.fixture
def still(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no time pass."""
    monkeypatch.setattr(module, "Stage", lambda: Stage(Clock()))
    monkeypatch.setattr(module, "time", SimpleNamespace(time=Clock(), monotonic=Clock()))


def moving() -> Progress:
    state = RunState(changes=1200, position=Position(0x20), wal_end=0x20 + 4200)
    progress = Progress(state, None)
    assert progress.line(0, 10) == "connecting"
    progress(Following())
    assert progress.line(1200, 10).startswith("no change yet, lag 4.2 kB, ")
    state.newest_commit_at = -0.5
    progress(Building())
    progress(Built(0.1))
    return progress


@pytest.mark.usefixtures("still")
def test_the_line_has_the_newest_change_the_lag_and_the_build() -> None:
    age, *rest = moving().line(1000, 10).split(", ")
    assert age == "newest change 0.5 s ago"
    assert rest == ["lag 4.2 kB", "built 0.0 s ago", "20/s", "1,200 changes", "position 0/20"]


def test_a_stop_waits_for_the_build_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "loader")
    logging.getLogger("loader").propagate = True
    progress = moving()
    progress.stop()
    assert caplog.messages == ["stopping"]
    progress(Building())
    assert caplog.messages[1:] == ["stopping after this build"], "what was staged is built"
    progress.stop()
    assert caplog.messages[2:] == ["stopping after this build"]
