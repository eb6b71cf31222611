"""How a run is: its probes, its lag, its port, and what a job of Spark prints meanwhile."""

from __future__ import annotations

import logging
import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from prometheus_client import CollectorRegistry
from waltally_jobs.common import progress as job_progress

from loader.capture import events
from loader.capture.events import Built, Following, RunState
from loader.monitoring import metrics
from loader.monitoring.health import Health
from loader.monitoring.progress import Progress
from loader.monitoring.wal_clock import WalClock
from loader.source.state import IDLE_WAL_BYTES
from testkit.commands import wait_until
from testkit.servers import free_port
from waltally.errors import BuildFailed, CannotConnect
from waltally.limits import Limits, limits

LONG = Limits().stalled_seconds + 1


class Run:
    """A run at a moment of our choice."""

    def __init__(self, *threads: str) -> None:
        self.state = RunState()
        self.stop = threading.Event()
        self.now = 1000.0
        self.lag: float | None = 0.0
        asked = (lambda: self.lag, lambda: 0, lambda: self.now)
        self.health = Health(self.state, self.stop, threads, *asked)

    def why_not_ready(self) -> str:
        answer = self.health.ready()
        return "" if answer.is_good else answer.line


@contextmanager
def thread(name: str) -> Iterator[None]:
    end = threading.Event()
    running = threading.Thread(target=end.wait, name=name, daemon=True)
    running.start()
    yield
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


def test_it_is_ready_while_it_follows_and_the_last_build_did_not_break() -> None:
    run = Run()
    assert "not streamed yet" in run.why_not_ready()
    run.health(events.Failed(CannotConnect("host=secret.internal is away"), retried=True))
    assert run.why_not_ready() == (
        "the slot is not streamed (CannotConnect: The source or the target cannot be reached)"
    )
    run.health(Following())
    assert run.why_not_ready() == ""
    run.health(events.BuildBroke(BuildFailed("no such column")))
    run.health(events.Committed(1, 1, 0.1))
    assert run.why_not_ready().startswith("the last build failed (BuildFailed: ")
    run.health(Built(0.1))
    assert run.why_not_ready() == ""
    run.stop.set()
    assert run.why_not_ready() == "the loader is stopping"


def test_a_source_that_writes_while_nothing_is_stored_is_a_stall_and_an_idle_one_is_none() -> None:
    run = Run()
    run.health(Following())
    for lag in (0.0, None):
        run.lag = lag
        run.now += LONG
        assert run.why_not_ready() == ""
    run.state.stored_at, run.lag = run.now, LONG
    assert run.why_not_ready() == "", "it has just begun to catch up"
    run.now += LONG
    assert run.why_not_ready() == "nothing was stored for 61 s, and the source has written since"
    run.state.stored_at = run.now
    assert run.why_not_ready() == "", "the backlog gets smaller"


def test_the_log_says_how_far_a_run_is_and_what_it_waits_for(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(limits, "log_progress", 0.01)
    state = RunState()
    progress = Progress(state)

    def says(line: str) -> None:
        wait_until(lambda: re.search(line, caplog.text), line)

    with caplog.at_level(logging.INFO, "loader"), progress:
        progress(Following())
        # Of so long a time a busy machine's seconds are not said.
        long = 3.5 * 3600
        state.open_since = time.monotonic() - long
        says("a batch has been open for 3.5 h, nothing is lost")
        state.open_since = None
        state.newest_commit_at, state.wal_end = time.time() - long, 64
        state.batches, state.changes = 1, 3
        says("newest change 3.5 h ago, lag 64 bytes, 300/s, 3 changes, position 0/0")
    says("stored 3 changes in 1 batch over ")


MB = 1024 * 1024


def clock(*points: tuple[float, int]) -> WalClock:
    made = WalClock()
    for moment, wal_end in points:
        made.add(moment, wal_end)
    return made


STEADY = clock((0, 0), (10, 10 * MB), (20, 30 * MB))
IDLE = clock((0, 5 * MB), (100, 5 * MB), (200, 5 * MB), (205, 6 * MB))
ANOTHER_SERVER = clock((0, 100 * MB), (10, 200 * MB), (20, 50 * MB), (30, 60 * MB))


def test_the_lag_is_the_time_since_the_wal_went_beyond_a_position() -> None:
    for known, position, now, seconds in (
        # A position between two moments lies between them.
        (STEADY, 5 * MB, 20, 15),
        (STEADY, 20 * MB, 20, 5),
        (STEADY, 30 * MB, 20, 0),
        # What an idle loader leaves is no lag.
        (clock((0, 0), (1000, IDLE_WAL_BYTES)), 0, 2000, 0),
        (clock((0, 0), (1000, IDLE_WAL_BYTES + 1)), 0, 2000, 2000),
        # A source that was idle does not add its rest to the lag.
        (IDLE, 5 * MB, 205, 5),
        # Another server's WAL begins again.
        (ANOTHER_SERVER, 55 * MB, 30, 5),
        (ANOTHER_SERVER, 10 * MB, 30, 10),
    ):
        assert known.seconds_behind(position, now) == seconds


def test_a_loader_that_starts_behind_knows_since_when() -> None:
    known = clock((3600, 60 * MB))
    assert known.seconds_behind(10 * MB, 3600) == 0
    for earlier in (0, 0), (3590, 59 * MB):
        known.add_earlier(*earlier)
        assert known.seconds_behind(10 * MB, 3600) == pytest.approx(3000)


def test_a_long_history_is_thinned_and_stays_right() -> None:
    known = clock(*((second, second * MB) for second in range(100_000)))
    assert len(known._points) <= 1000
    assert known.seconds_behind(1000 * MB, 100_000) == pytest.approx(99_000, abs=1)


def test_silent_clients_do_not_hold_their_threads(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert metrics.Handler.timeout, "a client may be silent for ever"
    monkeypatch.setattr(metrics.Handler, "timeout", 0.1)
    port = free_port()
    with metrics.answered("127.0.0.1", port, CollectorRegistry(), {}):
        before = threading.active_count()
        held = [socket.create_connection(("127.0.0.1", port)) for _ in range(10)]
        wait_until(lambda: not any(client.recv(1) for client in held), "all are closed")
        wait_until(lambda: threading.active_count() <= before, "their threads end")
    for client in held:
        client.close()
    assert capfd.readouterr().err == ""


def test_how_far_and_how_long_is_said_while_it_is_read(capsys: pytest.CaptureFixture[str]) -> None:
    now = 0.0
    progress = job_progress.Progress("reading a", 100, 1_000_000, clock=lambda: now)
    for seconds, done in ((0.5, 0), (9.5, 5), (10, 25), (1, 25), (9, 100)):
        now += seconds
        progress.show(done)
    # What is short says nothing.
    assert capsys.readouterr().err == (
        "reading a: 5% of about 1,000,000 rows, 5,000 rows/s, about 3.2 min left\n"
        "reading a: 25% of about 1,000,000 rows, 12,500 rows/s, about 1.0 min left\n"
        "reading a: 100% of about 1,000,000 rows, 33,333 rows/s\n"
    )
