"""What a session relies on is its own: its position, its fence, its durability, its threads."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from demo.cluster import Cluster
from loader.build import builder
from loader.build.builder import Builder
from loader.capture import handshake, reader
from loader.capture.events import BuildBroke, Built, Committed, Event
from loader.capture.follow import follow
from loader.capture.run_state import RunState
from tests.fixtures.pipelines import MakePipeline
from tests.support import ROOT, Database, wait_until
from tests.support.commands import RunningLoader
from tests.support.databases import application_database, empty_database
from tests.support.in_process import background
from tests.support.pipeline import Pipeline
from tests.support.servers import connect
from waltally.errors import BuildFailed, LoaderError, SlotMoved


def test_a_slot_moved_after_the_look_and_before_the_start_is_refused(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server goes on from the slot's position without a word, past changes never stored."""
    pipeline.must("setup")
    pipeline.source.insert(3)
    start: Callable[..., None] = handshake.start

    def moved_first(*arguments: Any) -> None:
        pipeline.source.execute(
            "select pg_replication_slot_advance(%s, pg_current_wal_lsn())", pipeline.slot
        )
        start(*arguments)

    monkeypatch.setattr(handshake, "start", moved_first)
    with pytest.raises(SlotMoved, match="changes between are lost"):
        follow(pipeline.loader_settings, threading.Event(), RunState(), once=True)
    assert pipeline.staged() == 0
    wait_until(
        lambda: (
            not pipeline.source.value(
                "select active from pg_replication_slots where slot_name = %s", pipeline.slot
            )
        ),
        "the slot is free",
    )


def test_two_sources_with_a_slot_of_one_name_leave_each_other_alone(
    cluster: Cluster, spare: Cluster, tmp_path: Path
) -> None:
    """A schema each in one warehouse; the fence of one must not end the other's session."""
    with (
        application_database(cluster, "trouble_one") as one,
        application_database(spare, "trouble_two") as two,
        empty_database(cluster, "trouble_warehouse") as warehouse,
    ):
        environments = {}
        for source, schema in ((one, "cdc_one"), (two, "cdc_two")):
            source.slot = "slot_trouble_shared"
            environments[schema] = source.environment(
                LOADER_SCHEMA=schema, LOADER_TARGET_DSN=cluster.dsn(warehouse.name)
            )
            done = source.loader("setup", **environments[schema])
            assert done.returncode == 0, done.stderr
        with (
            RunningLoader(environments["cdc_one"], tmp_path / "one.log") as first,
            RunningLoader(environments["cdc_two"], tmp_path / "two.log") as second,
        ):
            for number in range(1, 6):
                for source, schema in ((one, "cdc_one"), (two, "cdc_two")):
                    source.insert(2)
                    wait_until(
                        lambda: staged(warehouse, schema) == 2 * number,  # noqa: B023
                        f"{first.said()}{second.said()}",
                    )
            for running in (first, second):
                assert running.said().count("following the slot") == 1, running.said()
                assert "trying again" not in running.said()
                running.end()
        one.execute("select pg_replication_origin_drop('waltally_slot_trouble_shared')")
        two.execute("select pg_replication_origin_drop('waltally_slot_trouble_shared')")


def staged(warehouse: Database, schema: str) -> int:
    return int(warehouse.value(f"select count(*) from {schema}.change_log"))


def test_a_reload_does_not_make_commits_asynchronous(
    make_pipeline: MakePipeline, cluster: Cluster, spare: Cluster
) -> None:
    """What is confirmed outlives the target's crash."""
    pipeline = make_pipeline(cluster, spare)
    pipeline.must("setup")
    admin = connect(spare.dsn())
    with pipeline.follow() as running, admin.cursor() as cursor:
        pipeline.source.insert(1)
        pipeline.wait_for_staged(1)
        cursor.execute("alter system set synchronous_commit = off")
        cursor.execute("alter system set wal_writer_delay = '10s'")
        cursor.execute("select pg_reload_conf()")
        try:
            wait_until(
                lambda: pipeline.target.value("show synchronous_commit") == "off", "reloaded"
            )
            pipeline.source.insert(5)
            wal = pipeline.source.value("select pg_current_wal_lsn()")
            wait_until(
                lambda: pipeline.source.value(
                    "select confirmed_flush_lsn >= %s from pg_replication_slots "
                    "where slot_name = %s",
                    wal,
                    pipeline.slot,
                ),
                "the five are confirmed",
            )
            spare.stop("immediate")
        finally:
            spare.start()
            for name in ("synchronous_commit", "wal_writer_delay"):
                connect(spare.dsn()).cursor().execute(f"alter system reset {name}")
            connect(spare.dsn()).cursor().execute("select pg_reload_conf()")
        pipeline.target = pipeline.target.reconnect()
        assert pipeline.staged() == 6
        pipeline.source.insert(1)
        pipeline.wait_for_staged(7)
        running.end()


def test_a_reader_that_breaks_ends_the_loader_with_a_sentence(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline.must("setup")
    with background(pipeline) as loader:
        loader.wait_until_following()

        def broken(*_: object) -> None:
            raise ZeroDivisionError("nobody foresaw this")

        monkeypatch.setattr(reader.SlotReader, "_keep_up", broken)
        wait_until(lambda: loader.failure is not None, "it ends")
    assert loader.failure is not None
    assert type(loader.failure) is LoaderError
    assert "ZeroDivisionError (nobody foresaw this)" in loader.failure.sentence
    assert re.search(r"\nTry: .*--verbose", loader.failure.sentence)


def test_a_dbt_that_cannot_be_imported_ends_the_loader(pipeline: Pipeline, tmp_path: Path) -> None:
    pipeline.must("setup")
    package = tmp_path / "broken" / "dbt"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise ImportError('half installed')\n")
    for arguments in (["--build"], ["--build", "--once"]):
        with pipeline.start(*arguments, PYTHONPATH=str(package.parent)) as running:
            code, said = running.refuses()
        assert code == 28
        assert "dbt cannot be imported: ImportError (half installed)" in said
        assert f"-c {ROOT / 'requirements.lock'} dbt-core dbt-postgres" in said


def test_a_build_that_breaks_is_said_and_tried_again(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MakePipeline goes on meanwhile."""
    pipeline.begin()
    events: list[Event] = []
    usual = builder.apply_all
    breaks = iter([True, True])

    def apply_all(*arguments: Any) -> dict[str, float]:
        if next(breaks, False):
            raise ZeroDivisionError("nobody foresaw this")
        return usual(*arguments)

    monkeypatch.setattr(builder, "apply_all", apply_all)
    monkeypatch.setattr(builder, "_RETRY_SECONDS", 0.1)
    stop = threading.Event()
    background = Builder(pipeline.loader_settings, stop, events.append)
    with pipeline.dbt_environment():
        background.start()
        wait_until(lambda: any(isinstance(event, Built) for event in events), "it builds at last")
        background.close()
    broken = [event for event in events if isinstance(event, BuildBroke)]
    assert [str(event.error).count("nobody foresaw this") for event in broken] == [1, 1]
    assert not stop.is_set()
    assert not isinstance(broken[0].error, BuildFailed)


def test_builds_keep_their_interval_and_a_stop_ends_the_wait(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    began: list[float] = []

    def apply_all(*arguments: Any) -> dict[str, float]:
        began.append(time.monotonic())
        return {}

    pipeline.begin()
    monkeypatch.setattr(builder, "apply_all", apply_all)
    interval = 0.5
    background = Builder(pipeline.loader_settings, threading.Event(), interval=interval)
    staged = Committed(changes=1, transactions=1, seconds=0.0)
    with pipeline.dbt_environment():
        background.start()
        wait_until(lambda: len(began) == 1, "what was staged before is built")
        background.notice(staged)
        wait_until(lambda: len(began) == 2, "what came later is built")
        background.notice(staged)
        background.close()
    # Counted from the first build's start, which comes before its connection.
    assert began[1] - began[0] > interval / 2
    assert len(began) == 3, "the last batch is built at the stop"
