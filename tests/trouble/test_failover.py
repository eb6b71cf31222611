"""After a failover or a restore the source lacks the slot or the newest commits: refused."""

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
from testkit.servers import Cluster, connect_target
from testkit.standbys import KEEPS_SLOTS, Copy, Family, now_the_source
from waltally.database import connect
from waltally.errors import BuildFailed


def test_a_primary_that_went_away(
    family: Family, make_pipeline: MakePipeline, cluster: Cluster
) -> None:
    """Its standby has no slot, and lacks what the change log holds already."""
    pipeline = make_pipeline(family.primary, cluster)
    pipeline.begin()
    standby = family.backup()
    pipeline.source.insert(2)
    pipeline.must("run", "--once")
    family.primary.stop()
    position = pipeline.position()
    standby.start()
    with now_the_source(pipeline, standby):
        for command in (("run",), ("run", "--once"), ("setup",)):
            code, said = pipeline.refused(*command)
            assert (code, "standby" in said) == (16, True), said
        standby.promote()
        pipeline.source.insert(3)
        code, said = pipeline.refused("run")
        assert code == 21
        assert f"everything before {position} is stored" in said
        pipeline.recovers_from(said)
    family.primary.start()


def disk_of_the_beginning(pipeline: Pipeline, family: Family) -> Copy:
    """Begin, and return a copy of the primary's disk as it is then; the primary goes on."""
    pipeline.begin()
    family.primary.stop()
    copy = family.disk()
    family.primary.start()
    pipeline.source = pipeline.source.reconnect()
    return copy


def test_a_promoted_copy_is_refused_however_far_its_wal_has_grown(
    family: Family, make_pipeline: MakePipeline, cluster: Cluster
) -> None:
    """It has the slot and the identifier: only its timeline's history tells what it lacks."""
    pipeline = make_pipeline(family.primary, cluster)
    copy = disk_of_the_beginning(pipeline, family)
    pipeline.source.insert(2)
    pipeline.must("run", "--once")
    position = pipeline.position()
    family.primary.stop()
    copy.start_promoted()
    with now_the_source(pipeline, copy):
        pipeline.source.insert(3000)
        assert pipeline.source.value("select pg_current_wal_lsn() > %s::pg_lsn", position)
        code, said = pipeline.refused("run", "--once")
        assert code == 25
        assert "was promoted or restored at" in said
        assert f"everything before {position} is stored" in said
        assert pipeline.refused("setup") == (25, said)
        assert pipeline.loader("status").returncode == 25
        pipeline.recovers_from(said)
    family.primary.start()
    pipeline.source = pipeline.source.reconnect()
    pipeline.source.insert(4000)
    code, said = pipeline.refused("run")
    assert (code, "former primary" in said) == (25, True), said


@pytest.mark.slow
def test_a_source_restored_from_a_copy_of_its_disk(
    family: Family, make_pipeline: MakePipeline, cluster: Cluster
) -> None:
    """The slot is there and older: only the end of the WAL tells."""
    pipeline = make_pipeline(family.primary, cluster)
    copy = disk_of_the_beginning(pipeline, family)
    pipeline.source.insert(3000)
    pipeline.must("run", "--once")
    pipeline.build()
    position = pipeline.position()
    family.primary.stop()
    copy.start()
    with now_the_source(pipeline, copy):
        code, said = pipeline.refused("run", "--once")
        assert code == 25
        assert f"everything before {position} is stored" in said
        assert pipeline.refused("setup") == (25, said)
        # The new log overlaps the old one's positions: what was there must not meet it.
        pipeline.must("setup", "--renew")
        pipeline.source.insert(4000)
        pipeline.must("run", "--once")
        assert pipeline.target.value(
            "select %s::pg_lsn > %s::pg_lsn", pipeline.position(), position
        )
        assert pipeline.staged() == 4005
        with pytest.raises(BuildFailed) as failed:
            pipeline.build()
        assert "`spark-submit spark/seed.py" in failed.value.sentence
        pipeline.recovers_from(said)
    family.primary.start()


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
