"""`loader run`: whole transactions, once each; next to nothing is written where nothing happens."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from threading import Event

import pytest

from loader.capture.events import RunState
from loader.capture.follow import follow
from testkit.commands import wait_until
from testkit.databases import Database, paste
from testkit.fixtures import MakePipeline
from testkit.following import is_copying, is_followed, peak_memory
from testkit.pipeline import Pipeline
from testkit.second_opinion import other_slot
from testkit.servers import Cluster
from waltally.limits import limits

OWN_ROWS = """
select count(*) from pg_logical_slot_peek_changes(%s, null, null, 'format-version', '2',
    'filter-tables', 'public.*', 'filter-origins',
    (select coalesce(min(roident), 0)::text from pg_replication_origin where roname like %s))
where data like '%%"table":"change_log_%%'
"""
"""Rows of the change log that a slot delivers to whoever leaves our origin out."""


def test_own_rows_are_skipped_with_the_right_and_harmless_without(source: Database) -> None:
    origins = "select count(*) from pg_replication_origin where roname like %s"
    rights = f"grant create on database {source.name} to {{0}}"
    with source.role(rights, "login replication") as role:
        for user in ("postgres", role):
            source.must("setup", PGUSER=user)
            assert source.value(origins, f"%{source.slot}") == (user == "postgres")
            other = other_slot(source)
            source.insert(1000)
            source.must("run", "--once", PGUSER=user)
            source.must("run", "--once", PGUSER=user)
            assert source.staged() == 1000
            own_rows = source.value(OWN_ROWS, other, f"%{source.slot}")
            assert own_rows == (0 if user == "postgres" else 1000)
            source.execute("select pg_drop_replication_slot(%s)", other)
            source.must("teardown", "--drop-data", "--yes", PGUSER=user)
            source.execute("drop schema analytics cascade")


def test_a_large_transaction_passes_in_constant_memory_and_whole(source: Database) -> None:
    """A stop in its middle leaves nothing of it."""
    rows = 150_000
    source.must("setup")
    with source.follow() as running:
        source.insert(1)
        wait_until(lambda: source.staged() == 1, "it has stored something")
        idle = peak_memory(running)
        source.insert(rows)
        wait_until(lambda: is_copying(source), "a COPY is under way")
    assert source.staged() == 1
    with source.follow() as running:
        wait_until(lambda: source.staged() == rows + 1, "all of it is stored", 300)
        assert peak_memory(running) - idle < 64 * 1024
    assert f"INFO stored {rows:,} changes in 1 batch over " in running.said()
    assert source.value("select count(distinct commit_lsn) from cdc.change_log") == 2
    assert source.value("select max(ordinal) from cdc.change_log") == rows


def test_no_writer_is_held_up_by_setup_or_run(pipeline: Pipeline) -> None:
    """The application's writes go on under a lock timeout while everything is set up."""
    pipeline.source.execute("set lock_timeout to '100ms'")
    setup = pipeline.spawn("loader", "setup")
    while setup.poll() is None:
        pipeline.source.execute("insert into unrelated (note) values ('on and on')")
    said = setup.communicate()
    assert setup.returncode == 0, said


def test_a_partition_detached_by_hand_ends_a_running_loader_with_the_sql_to_attach(
    pipeline: Pipeline,
) -> None:
    source = pipeline.source
    source.begin_block()
    pipeline.must("setup")
    with pipeline.follow() as running:
        source.insert(3)
        pipeline.wait_for_staged(3)
        partition = source.value("select distinct tableoid::regclass::text from cdc.change_log")
        source.execute(f"alter table cdc.change_log detach partition {partition}")
        source.insert(2)
        assert running.process.wait(timeout=120) == 20, running.said()
    remedies = [line for line in running.said().splitlines() if "attach partition" in line]
    paste(source.cluster, source.name, remedies[-1].partition("Try: ")[2])
    pipeline.must("run", "--once")
    assert pipeline.staged() == 5


def test_traffic_elsewhere_moves_the_slot_and_stores_nothing(
    source: Database, database: Database
) -> None:
    """In the same database and in another one."""
    source.must("setup")
    is_followed = (
        "select restart_lsn >= %s and position_lsn >= confirmed_flush_lsn "
        "from pg_replication_slots inner join cdc.slot_position using (slot_name)"
    )
    with source.follow():
        source.execute("insert into unrelated (note) select 'x' from generate_series(1, 20000)")
        database.execute("create table other as select 'x' from generate_series(1, 20000)")
        reached = source.value("select pg_current_wal_lsn()")

        def follows() -> bool:
            # The slot lets go of WAL at a record of running transactions, which this makes.
            source.execute("checkpoint")
            return bool(source.value(is_followed, reached))

        wait_until(follows, "the slot follows")
    assert source.staged() == 0
    moves = "select n_tup_upd from pg_stat_user_tables where relname = 'slot_position'"
    assert source.value(moves) < 20


def test_an_idle_loader_writes_no_wal_for_itself(pipeline: Pipeline) -> None:
    pipeline.must("setup")
    pipeline.source.insert(1000)
    pipeline.limits.idle_seconds = 0.1
    with pipeline.follow():
        moves = [pipeline.position()]

        def settled() -> bool:
            moves.append(pipeline.position())
            return len(moves) > 40 and len(set(moves[-30:])) == 1

        wait_until(settled, "the position stands still")
        assert pipeline.staged() == 1000


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
    reached = f"select {column} >= %s from pg_replication_slots where active"
    return bool(pipeline.source.value(reached, position))


def test_a_burst_of_others_is_confirmed_at_once(quiet: Pipeline) -> None:
    quiet.limits.idle_seconds = 3600.0
    with quiet.follow():
        reached = burst(quiet)
        wait_until(lambda: is_at(quiet, "confirmed_flush_lsn", reached), "it is confirmed")


def test_a_slot_that_holds_much_follows_although_nothing_more_is_written(
    quiet: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server says which transactions run only after a write, and that says it in few bytes."""
    messages = other_slot(quiet.source)
    woken = (
        "select count(*) from pg_logical_slot_peek_changes(%s, null, null, 'format-version', '2', "
        "'add-msg-prefixes', 'waltally') where data like '%%\"M\"%%'"
    )
    monkeypatch.setattr(limits, "check_source", CHECK_SECONDS)
    stop = Event()
    with ThreadPoolExecutor() as pool, ExitStack() as stack:
        # A loader in a thread, whose limits change meanwhile.
        loader = pool.submit(follow, quiet.loader_settings, stop, RunState(), once=False)
        stack.callback(stop.set)
        wait_until(lambda: is_followed(quiet.source), "it follows")
        with monkeypatch.context() as patch:
            # Nothing is confirmed meanwhile, so no record lets the slot go before the message.
            patch.setattr(limits, "idle_seconds", 3600.0)
            patch.setattr(limits, "burst_wal", 2**40)
            reached = burst(quiet)
            wait_until(lambda: quiet.source.value(woken, messages) == 1, "the server is woken")
        quiet.source.execute("checkpoint")
        wait_until(lambda: is_at(quiet, "restart_lsn", reached), "the slot lets go")
        stop.set()
        loader.result()
    assert quiet.source.value(woken, messages) <= 2
