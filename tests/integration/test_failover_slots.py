"""A standby that keeps the slot goes on after a failover; one that lost commits is refused."""

from __future__ import annotations

import re

import pytest

from testkit.commands import wait_until
from testkit.databases import paste
from testkit.fixtures import MakePipeline
from testkit.pipeline import Pipeline
from testkit.servers import Cluster, administer
from testkit.standbys import (
    COPIES_SLOTS,
    Family,
    Standby,
    Writer,
    before_17,
    crash,
    from_17,
    now_the_source,
)


def copied(standby: Standby, pipeline: Pipeline) -> None:
    """Write until the standby has a complete copy of the slot; the loader runs."""

    def is_copied() -> bool:
        pipeline.source.execute("select pg_logical_emit_message(true, 'x', repeat('x', 3000))")
        pipeline.source.execute("select pg_log_standby_snapshot()")
        return standby.copies(pipeline.slot)

    wait_until(is_copied, "the standby has a copy", pause=0.5)


def begin_with_standby(pipeline: Pipeline, family: Family) -> Standby:
    """Begin with a slot that a standby copies, which the loader waits for."""
    pipeline.given["LOADER_FAILOVER"] = "1"
    pipeline.begin()
    standby = family.standby(COPIES_SLOTS)
    wait = "alter system set synchronized_standby_slots = 'standby'"
    administer(family.primary, wait, "select pg_reload_conf()")
    return standby


@from_17
def test_a_position_is_confirmed_once_the_standbys_have_its_record_and_status_says_so(
    family: Family, make_pipeline: MakePipeline
) -> None:
    """Else a standby could copy the slot's position without the record of it."""
    pipeline = make_pipeline(family.primary)
    # Not of a standby: the remedy must not make the loader wait for it.
    administer(family.primary, "select pg_create_physical_replication_slot('backup')")
    standby = begin_with_standby(pipeline, family)
    source, position = pipeline.source, pipeline.position()
    with pipeline.follow() as running:
        with source.holding("select from cdc.slot_position for update"):
            source.insert(5)
            wait_until(source.lock_waiters, "the loader waits to move its record")
            standby.stop()
        wait_until(lambda: pipeline.position() != position, "the record moves")
    is_held = (
        "select confirmed_flush_lsn < %s::pg_lsn from pg_replication_slots where plugin is not null"
    )
    assert source.value(is_held, pipeline.position())
    # Nor by the next session, which begins at the record.
    with pipeline.follow() as running:
        running.end()
    assert source.value(is_held, pipeline.position())
    with pipeline.follow() as running:
        staged = pipeline.staged()
        source.insert(5)
        assert pipeline.loader("status").returncode == 3
        shown = pipeline.loader("status").stdout
        assert "standby (synchronized_standby_slots)" in shown
        remedy = re.search(r"Try: start them; .*?: (alter system .*)", shown)
        assert remedy
        assert pipeline.staged() == staged
        paste(family.primary, "postgres", remedy[1])
        pipeline.wait_for_staged(staged + 5)
    pipeline.goes_on()
    position = pipeline.position()
    pipeline.must("run", "--once")
    assert not source.value(is_held, position)
    assert pipeline.loader("status").returncode == 0


@from_17
@pytest.mark.parametrize("is_apart", [True, False])
def test_a_crash_amid_writers_and_a_promotion_lose_and_repeat_nothing(
    family: Family, make_pipeline: MakePipeline, cluster: Cluster, is_apart: bool
) -> None:
    """A warehouse in the source comes along: what a copied slot is beyond is in that copy too."""
    pipeline = make_pipeline(family.primary, cluster if is_apart else None)
    standby = begin_with_standby(pipeline, family)
    # To whichever is the primary.
    servers = {"host": "127.0.0.1,127.0.0.1", "port": f"{family.primary.port},{standby.port}"}
    dsn = standby.dsn(pipeline.source.name, **servers, target_session_attrs="primary")
    target = {} if is_apart else {"LOADER_TARGET_DSN": dsn}
    with pipeline.follow(LOADER_SOURCE_DSN=dsn, **target) as running:
        copied(standby, pipeline)
        with Writer(pipeline.source, 1) as writer, Writer(pipeline.source, 2):
            wait_until(lambda: writer.count > 50, "the primary is written to")
            crash(family.primary)
        pipeline.source.connection.close()
        standby.promote()
        with now_the_source(pipeline, standby):
            running.wait_for("following the slot", times=2)
            with Writer(pipeline.source, 3) as writer:
                wait_until(lambda: writer.count > 20, "the new primary is written to")
            running.end()
            pipeline.must_be_exact()
            assert pipeline.differences() == []
            pipeline.source.insert(4, "sent")
            pipeline.goes_on()
            assert pipeline.target.value("select timeline from cdc.slot_position") == 2
            assert pipeline.loader("status").returncode == 0
    family.primary.start()


@from_17
def test_setup_says_what_the_primary_needs(
    family: Family, make_pipeline: MakePipeline, cluster: Cluster
) -> None:
    pipeline = make_pipeline(family.primary, cluster)
    pipeline.begin()
    with pipeline.follow():
        pipeline.refused_with(24, "stop the loader", "setup", "--failover")
    assert pipeline.refused("setup", "--check", "--failover")[0] == 20
    said = pipeline.must("setup", "--failover")
    assert "synchronized_standby_slots is empty" in said
    paste(family.primary, "postgres", said.split("at the source: ")[1].splitlines()[0])
    administer(family.primary, "select pg_reload_conf()")
    assert pipeline.must("setup", "--failover") == "Everything is set up already.\n"


@before_17
def test_an_older_server_is_refused_with_what_to_do(pipeline: Pipeline) -> None:
    pipeline.refused_with(2, "from PostgreSQL 17 on", "setup", "--failover")
