"""What a session relies on is its own: its login, position, fence, durability and threads."""

from __future__ import annotations

import re
import threading
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from loader.applying import applier
from loader.applying.applier import Applier
from loader.capture import handshake, reader, stream
from loader.capture.events import BuildBroke, Built, Event, RunState
from loader.capture.follow import follow
from loader.staging import target_state
from loader.staging.records import ModelState
from testkit.commands import wait_until
from testkit.databases import application_database, empty_database
from testkit.fixtures import MakePipeline
from testkit.pipeline import Pipeline
from testkit.servers import Cluster, administer, configured
from testkit.system import System
from waltally.database import connect
from waltally.errors import BuildFailed, LoaderError, LoginRefused, SlotMoved
from waltally.limits import limits


def test_a_slot_moved_after_the_look_and_before_the_start_is_refused(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server goes on from the slot's position without a word, past changes never stored."""
    pipeline.must("setup")
    pipeline.source.insert(3)

    def moved_first(*arguments: Any) -> None:
        pipeline.source.execute(
            "select pg_replication_slot_advance(%s, pg_current_wal_lsn())", pipeline.slot
        )
        handshake.start(*arguments)

    monkeypatch.setattr(stream, "start", moved_first)
    with pytest.raises(SlotMoved, match="changes between are lost"):
        follow(pipeline.loader_settings, threading.Event(), RunState(), once=True)
    assert pipeline.staged() == 0


def test_two_sources_with_a_slot_of_one_name_leave_each_other_alone(
    cluster: Cluster, spare: Cluster, tmp_path: Path
) -> None:
    """A schema each in one warehouse; the fence of one must not end the other's session."""
    with (
        application_database(cluster, "trouble_one") as one,
        application_database(spare, "trouble_two") as two,
        empty_database(cluster, "trouble_warehouse") as warehouse,
        ExitStack() as loaders,
    ):
        running = {}
        for source in (one, two):
            source.slot = "slot_trouble_shared"
            home = tmp_path / source.name
            home.mkdir()
            system = System(source, home, warehouse)
            system.given = {"LOADER_SCHEMA": source.name}
            system.must("setup")
            running[source] = loaders.enter_context(system.follow())
        for rows in range(2, 8, 2):
            for source, loader in running.items():
                source.insert(2)
                staged = f"select count(*) = {rows} from {source.name}.change_log"
                wait_until(partial(warehouse.value, staged), f"{source.name}: {loader.said()}")
        for loader in running.values():
            assert loader.said().count("following the slot") == 1, loader.said()
            assert "trying again" not in loader.said()
            loader.end()


def test_a_reload_does_not_make_commits_asynchronous(
    make_pipeline: MakePipeline, cluster: Cluster, spare: Cluster
) -> None:
    """What is confirmed outlives the target's crash, and the loader waits for the target."""
    pipeline = make_pipeline(cluster, spare)
    pipeline.must("setup")
    is_confirmed = "select confirmed_flush_lsn >= %s from pg_replication_slots where slot_name = %s"
    is_reloaded = "select current_setting('synchronous_commit') = 'off'"
    with pipeline.follow() as running:
        pipeline.source.insert(1)
        pipeline.wait_for_staged(1)
        with configured(spare, synchronous_commit="off", wal_writer_delay="'10s'"):
            wait_until(lambda: pipeline.target.value(is_reloaded), "reloaded")
            pipeline.source.insert(5)
            end = pipeline.source.value("select pg_current_wal_lsn()")
            wait_until(
                lambda: pipeline.source.value(is_confirmed, end, pipeline.slot),
                "the five are confirmed",
            )
            spare.stop("immediate")
            try:
                pipeline.source.insert(1)
                running.wait_for("The target cannot be reached", 2)
            finally:
                spare.start()
        pipeline.target = pipeline.target.reconnect()
        pipeline.wait_for_staged(7)


def test_a_reader_that_breaks_ends_the_loader_with_a_sentence(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline.must("setup")

    def broken(*_: object) -> None:
        raise ZeroDivisionError("nobody foresaw this")

    monkeypatch.setattr(reader.SlotReader, "_keep_up", broken)
    with pytest.raises(LoaderError) as failed:
        follow(pipeline.loader_settings, threading.Event(), RunState(), once=False)
    assert type(failed.value) is LoaderError
    assert "ZeroDivisionError (nobody foresaw this)" in failed.value.sentence
    assert re.search(r"\nTry: .*--verbose", failed.value.sentence)


def test_a_build_that_breaks_is_said_and_tried_again(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Staging goes on meanwhile."""
    pipeline.begin()
    events: list[Event] = []
    usual = target_state.apply
    breaks = iter([True, True])

    def apply(*arguments: Any) -> list[ModelState]:
        if "front" in arguments and next(breaks, False):
            raise ZeroDivisionError("nobody foresaw this")
        return usual(*arguments)

    monkeypatch.setattr(applier, "apply", apply)
    monkeypatch.setattr(limits, "apply_again", 0.1)
    background = Applier(pipeline.loader_settings, RunState(), events.append)
    background.start()
    wait_until(lambda: any(isinstance(event, Built) for event in events), "it applies at last")
    background.close()
    broken = [event for event in events if isinstance(event, BuildBroke)]
    assert [str(event.error).count("nobody foresaw this") for event in broken] == [1, 1]
    assert not isinstance(broken[0].error, BuildFailed)


REFUSED: list[tuple[dict[str, str], str]] = [
    ({"user": "stranger"}, 'role "stranger" does not exist'),
    ({"user": "locked"}, 'role "locked" is not permitted to log in'),
    ({"dbname": "nowhere"}, 'database "nowhere" does not exist'),
    ({"dbname": "closed", "user": "nobody"}, 'permission denied for database "closed"'),
    ({"options": "-cnonsense=1"}, "nonsense"),
    ({"options": "-cwork_mem=1TBB"}, "invalid value for parameter"),
]


def test_a_login_is_refused(spare: Cluster) -> None:
    administer(
        spare,
        "create role nobody login",
        "create role locked nologin",
        "create database closed",
        "revoke connect on database closed from public",
    )
    try:
        for words, said in REFUSED:
            with pytest.raises(LoginRefused, match=said):
                connect(spare.dsn(**words), "source")
            if "dbname" not in words or "user" not in words:
                with pytest.raises(LoginRefused, match=said):
                    handshake.connect_replication(spare.dsn(**words))
    finally:
        administer(spare, "drop database closed", "drop role nobody, locked")
