"""A server's stop and start need nobody: it stops under a loader, and a loader waits for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from testkit.commands import RunningLoader, wait_until
from testkit.fixtures import MakePipeline
from testkit.pipeline import Pipeline
from testkit.servers import Cluster


@contextmanager
def stopped(pipeline: Pipeline) -> Iterator[None]:
    """The source's server, stopped by a `fast` shutdown, until the end of the block."""
    cluster = pipeline.source.cluster
    cluster.stop("fast")  # gives up after a minute
    try:
        status = cluster.run("pg_ctl", "-D", str(cluster.data), "status", check=False)
        assert "no server running" in status
        yield
    finally:
        cluster.start()
        pipeline.source = pipeline.source.reconnect()


def test_an_idle_loader_does_not_keep_the_server_from_stopping(
    make_pipeline: MakePipeline, spare: Cluster, cluster: Cluster
) -> None:
    pipeline = make_pipeline(spare, cluster)
    source = pipeline.source
    pipeline.must("setup")
    with pipeline.follow() as running:
        confirmed = "select confirmed_flush_lsn >= %s from pg_replication_slots"
        source.insert(5)
        inserted = source.value("select pg_current_wal_lsn()")
        wait_until(lambda: source.value(confirmed, inserted), "the inserts are stored")
        # After a move of the idle position, what the stop itself writes is too little for another.
        reached = source.value("select pg_logical_emit_message(false, 'test', repeat('x', 5000))")
        wait_until(lambda: source.value(confirmed, reached), "the slot follows")
        with stopped(pipeline):
            running.wait_for("cannot be reached")
        running.wait_for("following the slot", 2)
        running.end()


def test_a_loader_started_before_its_server_waits_and_then_applies(
    make_pipeline: MakePipeline, spare: Cluster, tmp_path: Path
) -> None:
    pipeline = make_pipeline(spare)
    pipeline.must("setup")
    pipeline.install()
    pipeline.source.insert(5)
    environment, log = pipeline.environment(), tmp_path / "log"
    with stopped(pipeline):
        running = RunningLoader(environment, log, "--build", limits=pipeline.limits)
        running.wait_for("cannot be reached")
    with running:
        counted = "select coalesce(sum(live_count), 0) = 5 from analytics.ft_service_stats"
        wait_until(lambda: pipeline.source.value(counted), "the rows are counted")
        running.end()
