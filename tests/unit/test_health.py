"""What a run's health is, from its events, its threads and how far it is behind."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from loader.capture.events import BuildBroke, Built, Committed, Failed, Following, RunState
from loader.monitoring.health import STALLED_SECONDS, Health
from waltally.errors import BuildFailed, CannotConnect

LONG = STALLED_SECONDS + 1


class Run:
    """A run at a moment of our choice."""

    def __init__(self, *threads: str) -> None:
        self.state = RunState()
        self.stop = threading.Event()
        self.now = 1000.0
        self.lag: float | None = 0.0
        self.failed = 0
        self.health = Health(
            self.state,
            self.stop,
            threads,
            lambda: self.lag,
            lambda: self.failed,
            lambda: self.now,
        )

    def why_not_ready(self) -> str:
        answer = self.health.ready()
        return "" if answer.is_good else answer.line


@contextmanager
def thread(name: str) -> Iterator[None]:
    end = threading.Event()
    running = threading.Thread(target=end.wait, name=name, daemon=True)
    running.start()
    try:
        yield
    finally:
        end.set()
        running.join()


def test_a_thread_that_has_ended_is_told() -> None:
    run = Run("the one", "the other")
    with thread("the one"):
        assert run.health.alive().is_good, "nothing has begun yet"
        with thread("the other"):
            run.health(Following())
            assert run.health.alive().is_good
        assert run.health.alive().line == "the thread 'the other' has ended"
        assert not run.health.alive().is_good
    run.stop.set()
    assert run.health.alive().is_good


def test_it_is_ready_while_it_follows() -> None:
    run = Run()
    assert "not streamed yet" in run.why_not_ready()
    run.health(Following())
    assert run.why_not_ready() == ""
    run.health(Failed(CannotConnect("host=secret.internal is away"), retried=True))
    assert run.why_not_ready() == (
        "the slot is not streamed (CannotConnect: The source or the target cannot be reached; "
        "`loader run` waits, `--once` gives up)"
    )
    run.health(Following())
    run.stop.set()
    assert run.why_not_ready() == "the loader is stopping"


def test_the_last_build_counts() -> None:
    run = Run()
    run.health(Following())
    run.health(BuildBroke(BuildFailed("no such column")))
    run.health(Committed(1, 1, 0.1))
    assert run.why_not_ready().startswith("the last build failed (BuildFailed: ")
    run.health(Built(0.1))
    assert run.why_not_ready() == ""


def test_an_idle_source_is_no_stall() -> None:
    run = Run()
    run.health(Following())
    for lag in (0.0, None):
        run.lag = lag
        run.now += LONG
        assert run.why_not_ready() == ""


def test_a_source_that_writes_while_nothing_is_stored_is_a_stall() -> None:
    run = Run()
    run.health(Following())
    run.lag = LONG
    assert run.why_not_ready() == "", "it has just begun to catch up"
    run.now += LONG
    assert run.why_not_ready() == "nothing was stored for 61 s, and the source has written since"
    run.health(Committed(0, 0, 0.1))
    assert run.why_not_ready() == "", "the backlog gets smaller"


def test_a_batch_that_stays_open_is_a_stall() -> None:
    run = Run()
    run.health(Following())
    run.state.open_since = run.now
    assert run.why_not_ready() == ""
    run.now += LONG
    assert run.why_not_ready() == "a batch has been open for 61 s"


def test_a_fact_that_failed_counts_where_the_run_builds() -> None:
    run = Run()
    run.health(Following())
    run.failed = 1
    assert run.why_not_ready() == ""
    run.health(Built(0.1, {}))
    assert run.why_not_ready() == "1 fact could not be applied"
