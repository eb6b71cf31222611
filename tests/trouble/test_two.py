"""Two of everything at once: one goes first, the other waits or says so, and nothing is doubled."""

from __future__ import annotations

import signal
from contextlib import closing
from dataclasses import replace
from threading import Event

import psycopg2
import pytest
from psycopg2.extensions import make_dsn
from psycopg2.extras import LogicalReplicationConnection

from loader.capture import follow
from loader.capture.events import RunState
from loader.staging.change_log import ChangeLog
from testkit.commands import wait_until
from testkit.databases import Database
from testkit.following import is_copying, is_followed
from testkit.pipeline import Pipeline
from testkit.second_opinion import change_log, other_slot, second_opinion
from waltally.errors import Interrupted, SlotInUse
from waltally.limits import limits


def test_a_running_loader_is_left_alone_and_the_next_takes_over_when_it_is_killed(
    pipeline: Pipeline,
) -> None:
    pipeline.begin()
    pipeline.limits.follow_again = (0.1,)
    with pipeline.follow() as first:
        assert pipeline.must("setup") == "Everything is set up already.\n"
        for command in (("setup", "--renew"), ("teardown", "--yes", "--drop-data")):
            pipeline.refused_with(24, "stop the loader first", *command)
        assert pipeline.refused("setup", LOADER_SCHEMA="second")[0] == 24
        pipeline.source.insert(2)
        pipeline.wait_for_staged(7)
        assert first.said().count("following the slot") == 1
        with pipeline.start() as second:
            second.wait_for("is in use")
            first.process.kill()
            pipeline.source.insert(3)
            pipeline.wait_for_staged(10)
            assert "following the slot" in second.said()
    pipeline.goes_on()


def test_a_slot_that_an_ended_loader_still_holds_is_waited_for(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As long as the server may take to see it; another loader at work is not waited for."""
    pipeline.begin()
    pipeline.source.insert(3)
    monkeypatch.setattr(limits, "follow_again", (0.1,))
    source = make_dsn(pipeline.dsns[0], options="-c wal_sender_timeout=4s")
    settings = replace(pipeline.loader_settings, source=source)
    endless = replace(settings, source=make_dsn(source, options="-c wal_sender_timeout=0"))
    with pipeline.follow():
        pipeline.wait_for_staged(8)
        # Each of its answers is newer than this.
        with pytest.raises(SlotInUse):
            follow.follow(settings, Event(), RunState(), once=True)
    ended = psycopg2.connect(source, connection_factory=LogicalReplicationConnection)
    try:
        # It never answers again.
        ended.cursor().start_replication(slot_name=pipeline.slot, options={"format-version": "2"})
        assert not follow._is_held_for_good(endless, 59.0)
        assert follow._is_held_for_good(endless, 60.0)
        pipeline.source.insert(2)
        follow.follow(settings, Event(), RunState(), once=True)
    finally:
        ended.close()
    pipeline.goes_on()


def test_a_loader_that_lost_its_slot_is_fenced_off(source: Database) -> None:
    """A frozen loader holds rows in an open transaction; the next one must not wait for them."""
    source.must("setup")
    other = other_slot(source)
    source.insert(50_000)
    # A session that is terminated while its client does not read stays until the client does.
    with source.follow(PGOPTIONS="-c wal_sender_timeout=3s") as frozen:
        wait_until(lambda: is_copying(source), "a COPY is under way")
        frozen.process.send_signal(signal.SIGSTOP)
        wait_until(lambda: not is_followed(source), "the server frees the slot")
        assert source.staged() == 0
        source.must("run", "--once")
        frozen.process.send_signal(signal.SIGCONT)
        source.insert(3)
        wait_until(lambda: source.staged() == 50_003, "the first loader follows again")
    assert change_log(source) == second_opinion(source, other)


def test_a_position_that_another_loader_has_moved_is_left_alone(pipeline: Pipeline) -> None:
    pipeline.must("setup")
    with closing(ChangeLog(pipeline.loader_settings)) as log:
        position = log.record().position_lsn
        log.commit_position(position, position + 8, 0)
        with pytest.raises(Interrupted, match="is no longer"):
            log.commit_position(position, position + 16, 0)
        assert log.record().position_lsn == position + 8


def test_two_setups_at_once_make_one_slot(pipeline: Pipeline) -> None:
    # A writer holds the slot's making up, so that the second setup comes in the middle of it.
    with pipeline.source.holding("insert into unrelated (note) values ('open')") as writer:
        both = [pipeline.spawn("loader", "setup") for _ in range(2)]
        wait_until(
            lambda: len(pipeline.source.lock_waiters()) == 2,
            "one waits for the writer, the other for it",
        )
        writer.commit()
    said = [each.communicate(timeout=120)[0] for each in both]
    assert [each.returncode for each in both] == [0, 0]
    # The other one may have made the schema before.
    assert ["made the slot" in each for each in said].count(True) == 1, said
    # With it the models are installed.
    pipeline.must("setup")
    pipeline.source.insert(3)
    pipeline.must("run", "--once")
    assert pipeline.staged() == 3


def test_a_transaction_that_is_prepared_across_a_seed_is_counted_once(pipeline: Pipeline) -> None:
    pipeline.begin()
    for number in range(2):
        pipeline.source.execute(
            "begin; update notifications set notification_status = 'sent'"
            f" where id in (select id from notifications order by id limit 1 offset {number});"
            f" prepare transaction 'open {number}'"
        )
    pipeline.catch_up()
    counts = pipeline.model()
    # As the seed's snapshot has it: what is only prepared is not in it.
    pipeline.seed()
    pipeline.build()
    assert pipeline.model() == counts == pipeline.recount()
    pipeline.source.execute("commit prepared 'open 0'")
    with pipeline.follow("--build"):
        pipeline.source.execute("commit prepared 'open 1'")
        wait_until(lambda: pipeline.model() == pipeline.recount() != counts, "both are counted")
    pipeline.goes_on()
