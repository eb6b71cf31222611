"""What a session relies on is its own: its login, settings, position, fence, locks and threads."""

from __future__ import annotations

import re
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from functools import partial
from typing import Any

import pytest

from loader.applying import applier
from loader.applying.applier import Applier
from loader.capture import handshake, reader, stream
from loader.capture.events import BuildBroke, Built, Event, RunState
from loader.capture.follow import follow
from loader.staging import target_state
from loader.staging.change_log import ChangeLog
from loader.staging.records import ModelState
from testkit.commands import wait_until
from testkit.databases import application_database, empty_database
from testkit.fixtures import MakePipeline
from testkit.pipeline import Pipeline
from testkit.proxy import Pooler
from testkit.servers import Cluster, administer, configured
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
    cluster: Cluster, spare: Cluster
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
            target = {
                "LOADER_SCHEMA": source.name,
                "LOADER_TARGET_DSN": cluster.dsn(warehouse.name),
            }
            source.must("setup", **target)
            running[source] = loaders.enter_context(source.follow(**target))
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
        if "caught up" in arguments and next(breaks, False):
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


@pytest.mark.parametrize("place", ["source", "target"])
def test_a_proxy_is_refused_whatever_the_role_s_own_settings_are(
    pipeline: Pipeline, place: str
) -> None:
    """Its sessions have what a role or a database sets."""
    pipeline.source.execute(
        f"alter database {pipeline.source.name} set row_security = off;"
        f"alter database {pipeline.source.name} set search_path = pg_catalog, pg_temp"
    )
    pipeline.must("setup")
    with Pooler(pipeline.source.cluster.port) as pooler:
        dsn = pipeline.source.cluster.dsn(pipeline.source.name, port=str(pooler.port))
        through = dict.fromkeys(("LOADER_SOURCE_DSN", "LOADER_TARGET_DSN"), pipeline.dsns[0])
        through[f"LOADER_{place.upper()}_DSN"] = dsn
        for words in (("setup", "--check"), ("setup",), ("run", "--once"), ("status",), ("wait",)):
            proxy = f"The {place} is reached through a pooling proxy: "
            assert "name the server itself" in pipeline.refused_with(15, proxy, *words, **through)
        with pytest.raises(LoginRefused, match="pooling proxy"):
            pipeline.spark_job("spark-submit spark/seed.py", **through)


def test_nothing_is_confirmed_by_a_session_that_lost_its_settings(pipeline: Pipeline) -> None:
    """Where a proxy lends another session from some moment on."""
    pipeline.must("setup")
    pipeline.source.insert(1)
    with closing(ChangeLog(pipeline.loader_settings)) as log:
        position = log.record().position_lsn
        log.connection.ask("set synchronous_commit to off")
        with pytest.raises(LoginRefused, match="pooling proxy"):
            log.commit_position(position, position + 1, 0)
        assert log.record().position_lsn == position


PRUNE = ("prune", "--dry-run", "--timeout", "1")
READ_BY = {
    "cdc.change_log": (("status",), PRUNE),
    "cdc.slot_position": (("wait", "--lsn", "0/1"), ("setup", "--check")),
    "cdc.model_watermark": (("stats", "ft_service_stats"),),
    "public.notifications": (("status",),),
}
"""By table, commands that wait for its lock."""


def test_a_command_that_only_reads_names_who_holds_the_lock(pipeline: Pipeline) -> None:
    pipeline.begin(2)
    for table, commands in READ_BY.items():
        side = "source" if table == "public.notifications" else "target"
        with pipeline.target.holding(f"lock table {table} in access exclusive mode") as session:
            session.ask("set application_name to 'migration'")
            pid = session.info.backend_pid
            holder = f"session {pid} (migration, role postgres, idle in transaction)"
            for command in commands:
                locked = f"; the {holder} has locked {table}\nTry: "
                said = pipeline.refused_with(29, locked, *command)
                remedy = f"end it on the {side}: select pg_terminate_backend({pid});"
                assert said.rstrip().endswith(remedy), said
        for command in commands:
            pipeline.must(*command)


def test_one_that_waits_for_such_a_lock_keeps_readers_out_too(pipeline: Pipeline) -> None:
    pipeline.begin(2)
    alter = "alter table cdc.change_log add constraint c check (true)"
    with (
        pipeline.target.holding("select from cdc.change_log limit 1"),
        closing(pipeline.session("postgres")) as session,
        ThreadPoolExecutor(1) as pool,
    ):
        waiting = pool.submit(session.ask, alter)
        (pid,) = wait_until(pipeline.target.lock_waiters)
        said = pipeline.refused_with(29, f"session {pid} (", "status")
        assert " waits to lock cdc.change_log" in said
        pipeline.target.execute(said.split("on the target: ")[1])
        with pytest.raises(LoaderError):
            waiting.result()
        pipeline.must("status")
