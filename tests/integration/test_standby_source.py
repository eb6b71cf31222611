"""The loader decodes on a standby: exact amid writers, through a promotion, and when it may not."""

from __future__ import annotations

import subprocess
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


class OnStandby(Pipeline):
    """A pipeline whose application writes to a primary while its loader reads a standby."""

    def __init__(self, pipeline: Pipeline, standby: Standby) -> None:
        super().__init__(pipeline.source, pipeline.home, pipeline.target)
        self.standby, self.here = standby, standby.dsn(self.source.name)
        self.given = {"LOADER_TARGET_DSN": self.dsns[1], "LOADER_SOURCE_DSN": self.here}
        standby.catch_up()

    def loader(self, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        """Run the loader; while it sets up, the primary logs which transactions run."""
        if arguments[0] != "setup":
            return super().loader(*arguments, **more)
        with logging_snapshots(self.standby.primary):
            return super().loader(*arguments, **more)

    def begin(self, rows: int = 5) -> None:
        super().begin(rows)
        self.catch_up()
        assert self.differences() == []

    def catch_up(self) -> None:
        self.standby.catch_up()
        self.must("run", "--once")
        self.build()


@pytest.fixture
def apart(family: Family, make_pipeline: MakePipeline, cluster: Cluster) -> OnStandby:
    """With the warehouse on a third server."""
    pipeline = make_pipeline(family.primary, cluster)
    return OnStandby(pipeline, family.standby(KEEPS_SLOTS))


def test_a_loader_on_a_standby_is_exact_amid_writers(
    family: Family, make_pipeline: MakePipeline
) -> None:
    """With the warehouse on the primary its own rows come back by the standby, and are skipped."""
    pipeline = OnStandby(make_pipeline(family.primary), family.standby(KEEPS_SLOTS))
    pipeline.begin()
    with pipeline.follow(), Writer(pipeline.source, 1) as writer, Writer(pipeline.source, 2):
        wait_until(lambda: writer.count > 50, "the primary is written to")
        assert pipeline.loader("status").returncode == 0
    pipeline.catch_up()
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
    apart.source.insert(50, "delivered")
    apart.must("setup")
    primary = apart.dsns[0]
    audit = f"spark-submit spark/audit.py --source '{primary}'"
    with apart.follow(), Writer(apart.source, 1), Writer(apart.source, 2):
        apart.spark_job(f"spark-submit spark/seed.py --source '{primary}'")
        apart.build()
        # It fails where it finds a difference.
        apart.spark_job(audit)
    with pytest.raises(LoaderError, match="nobody follows"):
        apart.spark_job(audit)


def test_a_promotion_while_the_loader_runs_goes_on(apart: OnStandby) -> None:
    apart.begin()
    timeline = "select timeline from cdc.slot_position"
    with apart.follow() as running:
        with Writer(apart.source, 3) as writer:
            wait_until(lambda: writer.count > 20, "the primary is written to")
        apart.standby.catch_up()
        apart.standby.primary.stop("immediate")
        apart.standby.promote()
        with now_the_source(apart, apart.standby):
            apart.source.insert(30)
            # Of what the standby has of the writer, the loader may have staged a part alone.
            apart.wait_for_log()
            wait_until(lambda: apart.target.value(timeline) == 2, "the new timeline is noted")
            assert running.said().count("following the slot") == 1, running.said()
            running.end()
            apart.goes_on()
            assert apart.loader("status").returncode == 0
    apart.standby.primary.start()


@pytest.mark.slow
def test_a_loader_moves_to_a_standby_without_a_new_seed(apart: OnStandby) -> None:
    """A slot of the same name is made there first; the primary's brings the position past it."""
    at_primary = {"LOADER_SOURCE_DSN": apart.dsns[0]}
    make = f"select pg_create_logical_replication_slot('{apart.slot}', 'wal2json')"
    apart.given |= at_primary
    apart.begin()
    apart.standby.catch_up()
    apart.given["LOADER_SOURCE_DSN"] = apart.here
    apart.refused_with(16, "does not have the slot", "run", "--once")
    with logging_snapshots(apart.standby.primary):
        paste(apart.standby, apart.source.name, make)
    apart.source.insert(7)
    assert apart.refused("run", "--once")[0] == 22
    apart.must("run", "--once", **at_primary)
    apart.source.insert(8)
    apart.catch_up()
    assert apart.differences() == []
    assert apart.loader("setup").returncode == 0


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
    OnStandby(pipeline, standby).begin()
