"""The loader is killed, or a server: nothing is lost, nothing is staged or added twice."""

from __future__ import annotations

import os
import random
import signal
from functools import partial
from pathlib import Path

import pytest

from testkit.commands import RunningLoader, short_pauses, wait_until
from testkit.databases import Database, application_database
from testkit.fixtures import WAREHOUSE
from testkit.pipeline import Pipeline
from testkit.second_opinion import change_log, other_slot, second_opinion
from testkit.servers import Server

FAILPOINTS = ("copy-chunk", "before-commit", "after-commit")


def code_of(source: Database, failpoint: str, folder: Path) -> int:
    """The exit code of a loader that dies at a failpoint where it gets there."""
    environment = source.environment(WALTALLY_KILL_AT=failpoint)
    with RunningLoader(environment, folder / "log", "--once", limits=short_pauses()) as running:
        return running.process.wait()


@pytest.mark.parametrize("rows", [1, pytest.param(10_000, marks=pytest.mark.slow)])
def test_a_transaction_is_staged_once_wherever_the_loader_is_killed(
    source: Database, tmp_path: Path, rows: int
) -> None:
    other = other_slot(source)
    source.must("setup")
    for failpoint in (*FAILPOINTS, *(["copy-chunk:2"] if rows > 1 else [])):
        before = source.staged()
        source.insert(rows)
        assert code_of(source, failpoint, tmp_path) == -signal.SIGKILL
        assert source.staged() - before == (rows if failpoint == "after-commit" else 0)
        for _ in range(20):
            source.insert(1)
        assert code_of(source, failpoint, tmp_path) == -signal.SIGKILL
        source.insert(3)
        source.must("run", "--once")
        assert source.staged() - before == rows + 23
    assert change_log(source) == second_opinion(source, other)


def test_redelivered_transactions_change_nothing() -> None:
    dice, often = random.Random(8), {"checkpoint_timeout": "1h", "max_wal_size": "4GB"}
    confirmed = "select confirmed_flush_lsn from pg_replication_slots where slot_name = %s"
    with Server(often) as cluster:
        database = application_database(cluster, "d")
        other = other_slot(database)
        database.must("setup")
        went_back = 0
        for _ in range(3):
            for _ in range(dice.randint(1, 5)):
                database.insert(dice.randint(1, 20))
                database.execute("update notifications set notification_status = 'sent'")
            database.must("run", "--once")
            stored = change_log(database)
            before = database.value(confirmed, database.slot)
            cluster.stop("immediate")
            cluster.start()
            database = database.reconnect()
            went_back += database.value(confirmed, database.slot) != before
            database.must("run", "--once")
            assert change_log(database)[: len(stored)] == stored
        assert went_back > 1, "the server delivered something again"
        assert change_log(database) == second_opinion(database, other)


MODEL = "analytics.ft_service_stats"
LOCK = "lock table cdc.model_watermark in exclusive mode"
"""An apply waits for it."""


def write(pipeline: Pipeline) -> None:
    pipeline.source.insert(2)
    pipeline.source.execute("update notifications set notification_status = 'sent'")


def test_killed_while_it_follows_it_applies_each_change_once(pipeline: Pipeline) -> None:
    pipeline.begin()
    with pipeline.start("--build", WALTALLY_KILL_AT="applied:4") as running:

        def is_dead() -> bool:
            write(pipeline)
            return running.process.poll() is not None

        wait_until(is_dead, "it is killed")
    assert running.process.returncode == -signal.SIGKILL, running.said()
    pipeline.must("run", "--once", "--build")
    assert pipeline.model() == pipeline.recount()
    assert pipeline.rejected() == []


def test_what_is_staged_while_the_first_apply_runs_is_applied_without_another_change(
    pipeline: Pipeline,
) -> None:
    """The models that follow are applied for each batch, and then there is none yet."""
    pipeline.must("setup")
    pipeline.target.take_baseline()
    target = pipeline.target
    with target.holding(LOCK) as holder, pipeline.follow("--build", "--verbose") as running:
        wait_until(target.lock_waiters, "an apply waits")
        running.wait_for("built in")
        pipeline.source.insert(5)
        running.wait_for("built in", 2)
        holder.commit()
        wait_until(lambda: pipeline.model() == pipeline.recount(), running.said())


def test_what_a_crash_takes_of_an_apply_is_applied_again_and_nothing_twice(tmp_path: Path) -> None:
    """The commit of an apply does not wait for the disk, that of the log does."""
    settings = {"fsync": "off", "wal_writer_delay": "10s"}
    with Server(settings) as own, application_database(own, WAREHOUSE) as database:
        pipeline = Pipeline(database, tmp_path)
        pipeline.begin()
        with pipeline.follow("--build") as running:
            with pipeline.target.holding(LOCK):
                write(pipeline)
                (pid,) = wait_until(pipeline.target.lock_waiters, "an apply waits")
                # The server ends every session and recovers.
                os.kill(pid, signal.SIGKILL)
                running.wait_for("following the slot", 2)
            pipeline.source = pipeline.target = pipeline.source.reconnect()
            write(pipeline)
            wait_until(lambda: pipeline.model() == pipeline.recount(), "it goes on by itself")
            running.end()
        write(pipeline)
        pipeline.must("run", "--once", "--build")
        assert pipeline.model() == pipeline.recount()
        own.stop("immediate")
        own.start()
        pipeline.source = pipeline.target = pipeline.source.reconnect()
        pipeline.must("run", "--once", "--build")
        assert pipeline.model() == pipeline.recount()
        assert pipeline.rejected() == []
        pipeline.goes_on()


def test_a_loader_whose_apply_meets_a_lock_ends_when_it_is_told_to(pipeline: Pipeline) -> None:
    """And none waits for a table that somebody has locked: the others would get older."""
    pipeline.begin()
    pipeline.limits.stop_apply = 0.1
    is_refused = "select count(*) from cdc.installed_model where is_locked"
    for lock, seen in (
        (LOCK, pipeline.target.lock_waiters),
        (f"select from {MODEL} for update", partial(pipeline.target.value, is_refused)),
    ):
        with pipeline.follow("--build") as running, pipeline.target.holding(lock):
            write(pipeline)
            wait_until(seen, lock)
            running.end()
        # What could not be locked is tried again a second later.
        again = ("run", "--once", "--build")
        wait_until(lambda: pipeline.loader(*again).returncode == 0, "the next loader applies it")  # noqa: B023
        assert pipeline.model() == pipeline.recount()
