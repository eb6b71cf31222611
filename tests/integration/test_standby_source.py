"""The loader decodes on a standby: exact amid writers, through a promotion, and when it may not."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from testkit.commands import wait_until
from testkit.databases import paste
from testkit.fixtures import MakePipeline
from testkit.pipeline import Pipeline
from testkit.servers import Cluster, administer
from testkit.standbys import KEEPS_SLOTS, Family, Standby, Writer, from_16, now_the_source
from waltally.errors import LoaderError

pytestmark = from_16


class OnStandby:
    """A pipeline whose application writes to a primary while its loader reads a standby."""

    def __init__(self, pipeline: Pipeline, family: Family, standby: Standby) -> None:
        self.pipeline, self.family, self.standby = pipeline, family, standby

    def begin(self) -> None:
        """Set up, seed and stage, with changes before and after."""
        pipeline = self.pipeline
        pipeline.source.insert(5, "delivered")
        self.set_up()
        pipeline.seed()
        pipeline.source.insert(5)
        self.catch_up()
        assert pipeline.differences() == []

    def set_up(self) -> None:
        """Set up, while the primary logs which transactions run."""
        with logging_snapshots(self.family.primary):
            self.pipeline.must("setup")

    def catch_up(self) -> None:
        self.standby.catch_up()
        self.pipeline.must("run", "--once")
        self.pipeline.build()


@contextmanager
def logging_snapshots(primary: Cluster) -> Iterator[None]:
    """Do on the primary what setup asks for."""
    stop = threading.Event()

    def run() -> None:
        while not stop.wait(0.3):
            administer(primary, "select pg_log_standby_snapshot()")

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def on_standby(pipeline: Pipeline, family: Family) -> OnStandby:
    standby = family.standby(KEEPS_SLOTS)
    standby.catch_up()
    pipeline.given["LOADER_TARGET_DSN"] = pipeline.dsns[1]
    pipeline.given["LOADER_SOURCE_DSN"] = standby.dsn(pipeline.source.name)
    return OnStandby(pipeline, family, standby)


@pytest.fixture
def apart(family: Family, make_pipeline: MakePipeline, cluster: Cluster) -> OnStandby:
    """With the warehouse on a third server."""
    return on_standby(make_pipeline(family.primary, cluster), family)


def test_a_loader_on_a_standby_is_exact_amid_writers(
    family: Family, make_pipeline: MakePipeline
) -> None:
    """With the warehouse on the primary its own rows come back by the standby, and are skipped."""
    pipeline = make_pipeline(family.primary)
    there = on_standby(pipeline, family)
    there.begin()
    with pipeline.follow(), Writer(pipeline.source, 1) as writer, Writer(pipeline.source, 2):
        wait_until(lambda: writer.count > 50, "the primary is written to")
        assert pipeline.loader("status").returncode == 0
    there.catch_up()
    assert pipeline.differences() == []
    assert pipeline.source.value("select count(*) from pg_replication_slots") == 1
    assert pipeline.loader("status").returncode == 0
    # Nothing is written any more: it must end all the same.
    pipeline.must("run", "--once")
    origin = "select count(*) from pg_replication_origin where roname = %s"
    assert pipeline.target.value(origin, f"waltally_{pipeline.slot}") == 1
    said = pipeline.must("teardown", "--yes", "--drop-data")
    assert "dropped the replication origin" in said
    assert pipeline.target.value(origin, f"waltally_{pipeline.slot}") == 0


@pytest.mark.slow
def test_spark_seeds_and_audits_at_the_primary(apart: OnStandby) -> None:
    pipeline = apart.pipeline
    pipeline.source.insert(50, "delivered")
    apart.set_up()
    primary = apart.family.primary.dsn(pipeline.source.name)
    audit = f"spark-submit spark/audit.py --source '{primary}'"
    with pipeline.follow(), Writer(pipeline.source, 1), Writer(pipeline.source, 2):
        pipeline.spark_job(f"spark-submit spark/seed.py --source '{primary}'")
        pipeline.build()
        # It fails where it finds a difference.
        pipeline.spark_job(audit)
    with pytest.raises(LoaderError, match="nobody follows"):
        pipeline.spark_job(audit)


def test_a_promotion_while_the_loader_runs_goes_on(apart: OnStandby) -> None:
    apart.begin()
    pipeline = apart.pipeline
    with pipeline.follow() as running:
        with Writer(pipeline.source, 3) as writer:
            wait_until(lambda: writer.count > 20, "the primary is written to")
        apart.standby.catch_up()
        apart.family.primary.stop("immediate")
        apart.standby.promote()
        with now_the_source(pipeline, apart.standby):
            pipeline.source.insert(30)
            # Of what the standby has of the writer, the loader may have staged a part alone.
            pipeline.wait_for_log()
            wait_until(
                lambda: pipeline.target.value("select timeline from cdc.slot_position") == 2,
                "the new timeline is written down",
            )
            assert running.said().count("following the slot") == 1, running.said()
            running.end()
            pipeline.goes_on()
            assert pipeline.loader("status").returncode == 0
    apart.family.primary.start()


@pytest.mark.slow
def test_a_loader_moves_to_a_standby_without_a_new_seed(apart: OnStandby) -> None:
    """A slot of the same name is made there first; the primary's brings the position past it."""
    pipeline, standby = apart.pipeline, apart.standby
    here = standby.dsn(pipeline.source.name)
    del pipeline.given["LOADER_SOURCE_DSN"]
    pipeline.begin()
    standby.catch_up()
    pipeline.given["LOADER_SOURCE_DSN"] = here
    pipeline.refused_with(16, "does not have the slot", "run", "--once")
    with logging_snapshots(apart.family.primary):
        paste(
            standby,
            pipeline.source.name,
            f"select pg_create_logical_replication_slot('{pipeline.slot}', 'wal2json')",
        )
    pipeline.source.insert(7)
    assert pipeline.refused("run", "--once")[0] == 22
    del pipeline.given["LOADER_SOURCE_DSN"]
    pipeline.must("run", "--once")
    pipeline.given["LOADER_SOURCE_DSN"] = here
    pipeline.source.insert(8)
    apart.catch_up()
    assert pipeline.differences() == []
    assert pipeline.loader("setup").returncode == 0


def test_a_standby_that_would_lose_the_slot_is_refused_and_the_remedies_help(
    family: Family, make_pipeline: MakePipeline, cluster: Cluster
) -> None:
    pipeline = make_pipeline(family.primary, cluster)
    standby = family.standby({})
    standby.catch_up()
    pipeline.given["LOADER_SOURCE_DSN"] = standby.dsn(pipeline.source.name)
    said = pipeline.refused_with(16, "", "setup")
    wrong = said.split("Error: ")[1:]
    assert len(wrong) == 2, said
    assert pipeline.refused("setup", "--check") == (16, said)
    for finding in wrong:
        for part in finding.split("Try: ")[1].strip().split("; then "):
            place, _, statement = part.partition(": ")
            paste(family.primary if "primary" in place else standby, "postgres", statement)
    done_by = (
        "select current_setting('hot_standby_feedback') || current_setting('primary_slot_name')"
    )
    wait_until(lambda: standby.ask(done_by) == "onwaltally_standby", "it is reloaded")
    with pipeline.source.holding("select pg_current_xact_id()"):
        pipeline.refused_with(19, "pg_log_standby_snapshot()", "setup", "--timeout", "2")
    OnStandby(pipeline, family, standby).begin()
