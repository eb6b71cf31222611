"""A source or a target that was restored, or a former primary, lacks commits: refused."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from functools import partial

import pytest

from loader.source.asking import read_server
from loader.source.server import Timeline
from loader.source.standbys.actions import History, read_wait
from testkit.databases import Database
from testkit.fixtures import MakePipeline
from testkit.pipeline import Pipeline
from testkit.servers import Cluster, administer, connect_target
from testkit.standbys import KEEPS_SLOTS, Family, now_the_source
from waltally.database import connect


@pytest.mark.parametrize(
    "is_promoted", [True, pytest.param(False, marks=pytest.mark.slow)], ids=["promoted", "restored"]
)
def test_a_copy_of_the_source_s_disk_is_refused(
    family: Family, make_pipeline: MakePipeline, cluster: Cluster, is_promoted: bool
) -> None:
    """It has the slot and the identifier: its timeline's history or the WAL's end tell."""
    pipeline = make_pipeline(family.primary, cluster)
    pipeline.begin()
    family.primary.stop()
    copy = family.disk()
    family.primary.start()
    pipeline.source = pipeline.source.reconnect()
    pipeline.source.insert(2 if is_promoted else 3000)
    pipeline.must("run", "--once")
    position = pipeline.position()
    family.primary.stop()
    copy.start_promoted() if is_promoted else copy.start()
    with now_the_source(pipeline, copy):
        if is_promoted:
            pipeline.source.insert(3000)
            is_beyond = "select pg_current_wal_lsn() > %s::pg_lsn"
            assert pipeline.source.value(is_beyond, position), "its WAL has grown"
        code, said = pipeline.refused("run", "--once")
        assert code == 25
        assert ("was promoted or restored at" in said) == is_promoted
        assert f"everything before {position} is stored" in said
        assert pipeline.refused("setup") == (25, said)
        assert pipeline.loader("status").returncode == 25
        pipeline.recovers_from(said)
    family.primary.start()
    if is_promoted:
        pipeline.source = pipeline.source.reconnect()
        pipeline.source.insert(4000)
        pipeline.refused_with(25, "former primary", "run")


def test_a_promotion_is_seen_by_the_connection_that_watches_and_written_down(
    family: Family, source: Database
) -> None:
    """On each version; from PostgreSQL 16 on tests/integration/test_standby_source.py follows."""
    source.must("setup")
    standby = family.standby(KEEPS_SLOTS)
    with closing(connect(standby.dsn(), "source")) as connection:
        server = replace(read_server(connection), timeline=Timeline(1))
    history = History(server)
    with (
        closing(connect(history.dsn(standby.dsn()), "source")) as connection,
        closing(connect_target(source.cluster.dsn(source.name), source.slot)) as target,
    ):
        assert read_wait(connection) is None
        seen = []
        steps = partial(history.ask, connection), standby.promote, partial(history.write, target)
        for step in steps:
            step()
            history.ask(connection)
            seen.append(history.has_changed)
    assert seen == [False, True, False]
    written = "select timeline, timeline_began_lsn > '0/0', on_standby from cdc.slot_position"
    assert source.execute(written) == [(2, True, True)]


def test_a_target_restored_from_an_older_backup(apart: Pipeline) -> None:
    apart.begin()
    cluster, name = apart.target.cluster, apart.target.name
    sessions = f"from pg_stat_activity where datname = '{name}'"
    administer(
        cluster,
        f"select pg_terminate_backend(pid) {sessions}",
        f"create database backup template {name}",
    )
    apart.source.insert(3)
    apart.must("run", "--once")
    administer(
        cluster, f"drop database {name} with (force)", f"alter database backup rename to {name}"
    )
    apart.target = apart.target.reconnect()
    position = apart.position()
    for command in (("run",), ("setup",)):
        said = apart.refused_with(22, "the target was restored", *command)
        assert f"everything before {position} is stored, changes between are lost" in said
    apart.recovers_from(said)
