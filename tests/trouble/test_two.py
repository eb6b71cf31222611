"""Two of everything at once: one goes first, the other waits or says so, and nothing is doubled."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Event

import pytest

from testkit.commands import ROOT, RunningLoader, profiles, wait_until
from testkit.databases import Database
from testkit.following import end, is_copying, is_followed
from testkit.pipeline import Pipeline
from testkit.second_opinion import change_log, other_slot, second_opinion
from testkit.servers import connect
from tests.acceptance.pipeline import BIN


def test_the_second_loader_takes_over_when_the_first_is_killed(pipeline: Pipeline) -> None:
    pipeline.begin()
    with pipeline.follow() as first:
        pipeline.source.insert(2)
        pipeline.wait_for_staged(7)
        code, said = pipeline.refused("run", "--once")
        assert (code, "is in use" in said) == (24, True)
        with pipeline.start() as second:
            second.wait_for("is in use")
            take_over(pipeline, first, second)
    pipeline.goes_on()


def take_over(pipeline: Pipeline, first: RunningLoader, second: RunningLoader) -> None:
    first.process.kill()
    pipeline.source.insert(3)
    pipeline.wait_for_staged(10)
    assert "following the slot" in second.said()
    second.end()


def test_a_loader_that_lost_its_slot_is_fenced_off(source: Database) -> None:
    """A frozen loader holds rows in an open transaction; the next one must not wait for them."""
    source.must("setup")
    other = other_slot(source)
    source.insert(100_000)
    # A session that is terminated while its client does not read stays until the client does.
    frozen = source.start_loader("run", PGOPTIONS="-c wal_sender_timeout=3s")
    try:
        wait_until(lambda: is_copying(source), "a COPY is under way")
        frozen.send_signal(signal.SIGSTOP)
        wait_until(lambda: not is_followed(source), "the server frees the slot")
        assert source.staged() == 0
        source.must("run", "--once")
        frozen.send_signal(signal.SIGCONT)
        source.insert(3)
        wait_until(lambda: source.staged() == 100_003, "the first loader follows again")
        end(frozen)
    finally:
        frozen.kill()
        frozen.communicate()
    assert change_log(source) == second_opinion(source, other)


def test_whoever_applies_at_once_applies_each_change_once(pipeline: Pipeline) -> None:
    """Two loaders that build, of which one may follow the slot, and sessions of anybody."""
    pipeline.begin()
    is_over = Event()

    def apply() -> int:
        calls = 0
        with closing(connect(pipeline.dsns[1])) as session:
            while not is_over.is_set():
                session.cursor().execute("select cdc.apply(%s)", (pipeline.slot,))
                calls += 1
        return calls

    with (
        ThreadPoolExecutor() as pool,
        pipeline.follow("--build") as first,
        pipeline.start("--build") as second,
    ):
        callers = [pool.submit(apply) for _ in range(2)]
        try:
            second.wait_for("is in use")
            for number in range(30):
                pipeline.source.insert(3, f"status {number}")
                pipeline.source.execute("update notifications set notification_type = 'sms'")
                pipeline.source.execute("delete from notifications where id::text < '2'")
            first.process.kill()
            pipeline.source.insert(3)
            wait_until(lambda: pipeline.fact() == pipeline.recount(), "it is exact")
        finally:
            is_over.set()
        assert all(caller.result() for caller in callers)
        second.end()
    assert pipeline.rejected() == []
    pipeline.goes_on()


def test_a_transaction_that_is_prepared_across_a_seed_is_counted_once(pipeline: Pipeline) -> None:
    pipeline.begin()
    before = connect(pipeline.dsns[0])
    for number in range(2):
        before.cursor().execute(
            "begin; update notifications set notification_status = 'sent'"
            f" where id in (select id from notifications order by id limit 1 offset {number});"
            f" prepare transaction 'open {number}'"
        )
    pipeline.catch_up()
    counts = pipeline.fact()
    # As the seed's snapshot has it: what is only prepared is not in it.
    pipeline.seed()
    pipeline.build()
    assert pipeline.fact() == counts == pipeline.recount()
    before.cursor().execute("commit prepared 'open 0'")
    with pipeline.follow("--build") as running:
        before.cursor().execute("commit prepared 'open 1'")
        wait_until(lambda: pipeline.fact() == pipeline.recount() != counts, "both are counted")
        running.end()
    before.close()
    pipeline.goes_on()


def test_setup_and_teardown_leave_a_running_loader_alone(pipeline: Pipeline) -> None:
    pipeline.begin()
    with pipeline.follow() as running:
        assert pipeline.must("setup") == "Everything is set up already.\n"
        for command in (("setup", "--renew"), ("teardown", "--yes", "--purge")):
            code, said = pipeline.refused(*command)
            assert code == 24
            assert "stop the loader first" in said
        pipeline.source.insert(3)
        pipeline.wait_for_staged(8)
        assert running.said().count("following the slot") == 1
        running.end()
    pipeline.goes_on()


def test_two_setups_at_once_make_one_slot(pipeline: Pipeline) -> None:
    # A writer holds the slot's making up, so that the second setup comes in the middle of it.
    writer = connect(pipeline.source.cluster.dsn(pipeline.source.name))
    writer.autocommit = False
    writer.cursor().execute("insert into unrelated (note) values ('open')")
    both = [pipeline.source.start_loader("setup") for _ in range(2)]
    wait_until(
        lambda: pipeline.source.value(
            "select count(*) = 2 from pg_stat_activity where application_name = 'waltally loader' "
            "and wait_event_type = 'Lock' and datname = current_database()"
        ),
        "one waits for the writer, the other for it",
    )
    writer.commit()
    writer.close()
    said = [each.communicate(timeout=120)[0] for each in both]
    assert [each.returncode for each in both] == [0, 0]
    # The other one may have made the schema before.
    assert ["made the slot" in each for each in said].count(True) == 1, said
    pipeline.source.insert(3)
    pipeline.must("run", "--once")
    assert pipeline.staged() == 3


def dbt(pipeline: Pipeline, home: Path, *words: str) -> subprocess.Popen[str]:
    home.mkdir()
    return subprocess.Popen(
        [str(BIN / "dbt"), *words],
        env={**pipeline.environment(), **profiles(home)},
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@contextmanager
def held(database: Database, statement: str) -> Iterator[None]:
    holder = connect(database.cluster.dsn(database.name))
    holder.autocommit = False
    holder.cursor().execute(statement)
    yield
    holder.rollback()
    holder.close()


def wait_for_waiting(database: Database, sessions: int) -> None:
    wait_until(
        lambda: database.value(
            "select count(*) = %s from pg_stat_activity where wait_event_type = 'Lock' "
            "and application_name = 'dbt' and datname = current_database()",
            sessions,
        ),
        f"{sessions} sessions of dbt wait",
    )


@pytest.mark.slow
def test_two_first_builds_at_once(pipeline: Pipeline, tmp_path: Path) -> None:
    """Both find neither schema nor table; one makes them, the other must not apply again."""
    pipeline.source.insert(3, "delivered")
    pipeline.must("setup")
    pipeline.seed()
    pipeline.source.insert(4)
    pipeline.must("run", "--once")
    lock = "select pg_advisory_xact_lock(hashtextextended('waltally {}', 0))"
    keys = ("model analytics.ft_service_stats", "analytics.rejected_changes")
    locks = [lock.format(key) for key in keys]
    with held(pipeline.source, "; ".join(locks)):
        with held(pipeline.source, "create schema analytics"):
            both = [dbt(pipeline, tmp_path / name, "run") for name in ("one", "two")]
            wait_for_waiting(pipeline.source, 2)
        wait_for_waiting(pipeline.source, 2)
    said = [each.communicate(timeout=120)[0] for each in both]
    assert [each.returncode for each in both] == [0, 0], said
    pipeline.build()
    assert pipeline.differences() == []
    pipeline.goes_on()
