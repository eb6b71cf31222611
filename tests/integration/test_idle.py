"""Where nothing happens to the tables, the slot follows and next to nothing is written."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Event

import pytest

from loader.capture.events import RunState
from loader.capture.follow import follow
from testkit.commands import RunningLoader, short_pauses, wait_until
from testkit.databases import Database
from testkit.fixtures import MakePipeline
from testkit.following import is_followed
from testkit.pipeline import Pipeline
from testkit.second_opinion import other_slot
from testkit.servers import Cluster
from waltally.limits import limits


def test_traffic_elsewhere_moves_the_slot_and_stores_nothing(
    source: Database, database: Database
) -> None:
    """In the same database and in another one."""
    source.must("setup")
    with source.follow():
        source.execute("insert into unrelated (note) select 'x' from generate_series(1, 20000)")
        database.execute("create table other as select 'x' from generate_series(1, 20000)")
        reached = source.value("select pg_current_wal_lsn()")

        def follows() -> bool:
            # The slot lets go of WAL at a record of running transactions, which this makes.
            source.execute("checkpoint")
            return bool(
                source.value(
                    "select restart_lsn >= %s and position_lsn >= confirmed_flush_lsn "
                    "from pg_replication_slots inner join cdc.slot_position using (slot_name) "
                    "where slot_name = %s",
                    reached,
                    source.slot,
                )
            )

        wait_until(follows, "the slot follows")
    assert source.staged() == 0
    moves = "select n_tup_upd from pg_stat_user_tables where relname = 'slot_position'"
    assert source.value(moves) < 20


def test_an_idle_loader_writes_no_wal_for_itself(source: Database, tmp_path: Path) -> None:
    source.must("setup")
    source.insert(1000)
    often = replace(short_pauses(), idle_seconds=0.1)
    with RunningLoader(source.environment(), tmp_path / "log", limits=often):
        at = "select position_lsn from cdc.slot_position"
        moves = [source.value(at)]

        def settled() -> bool:
            moves.append(source.value(at))
            return len(moves) > 40 and len(set(moves[-30:])) == 1

        wait_until(settled, "the position stands still")
        assert source.staged() == 1000


CHECK_SECONDS = 0.05


@pytest.fixture
def quiet(make_pipeline: MakePipeline, spare: Cluster) -> Pipeline:
    """A source on a server where nobody else writes; nothing is seeded."""
    pipeline = make_pipeline(spare)
    pipeline.limits.check_source = CHECK_SECONDS
    pipeline.must("setup")
    return pipeline


def burst(pipeline: Pipeline) -> str:
    """Write more than a slot may hold, nothing of it for us, and return where it ends."""
    message = "pg_logical_emit_message(false, 'test', repeat('x', 20000000))"
    return str(pipeline.source.value(f"select {message}"))


def is_at(pipeline: Pipeline, column: str, position: str) -> bool:
    return bool(
        pipeline.source.value(
            f"select {column} >= %s from pg_replication_slots where slot_name = %s",
            position,
            pipeline.slot,
        )
    )


def test_a_burst_of_others_is_confirmed_at_once(quiet: Pipeline) -> None:
    quiet.limits.idle_seconds = 3600.0
    with quiet.follow():
        reached = burst(quiet)
        wait_until(lambda: is_at(quiet, "confirmed_flush_lsn", reached), "it is confirmed")


@contextmanager
def followed_here(pipeline: Pipeline) -> Iterator[None]:
    """Let a loader follow in a thread, whose limits the block can change meanwhile."""
    stop = Event()
    with ThreadPoolExecutor() as pool:
        loader = pool.submit(follow, pipeline.loader_settings, stop, RunState(), once=False)
        try:
            wait_until(lambda: is_followed(pipeline.source), "it follows")
            yield
        finally:
            stop.set()
        loader.result()


def test_a_slot_that_holds_much_follows_although_nothing_more_is_written(
    quiet: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server says which transactions run only after a write, and that says it in few bytes."""
    messages = other_slot(quiet.source)

    def woken() -> int:
        return int(
            quiet.source.value(
                "select count(*) from pg_logical_slot_peek_changes(%s, null, null, "
                "'format-version', '2', 'add-msg-prefixes', 'waltally') "
                "where data like '%%\"M\"%%'",
                messages,
            )
        )

    monkeypatch.setattr(limits, "check_source", CHECK_SECONDS)
    with followed_here(quiet):
        with monkeypatch.context() as patch:
            # Nothing is confirmed meanwhile, so no record lets the slot go before the message.
            patch.setattr(limits, "idle_seconds", 3600.0)
            patch.setattr(limits, "burst_wal", 2**40)
            reached = burst(quiet)
            wait_until(lambda: woken() == 1, "the server is woken")
        quiet.source.execute("checkpoint")
        wait_until(lambda: is_at(quiet, "restart_lsn", reached), "the slot lets go")
    assert woken() <= 2
