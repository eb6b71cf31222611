"""A server's stop, crash and start need nobody: a loader does not hold it up, and waits for it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from testkit.commands import wait_until
from testkit.fixtures import MakePipeline
from testkit.pipeline import Pipeline
from testkit.servers import Cluster

AWAY = "The source cannot be reached"


@contextmanager
def stopped(pipeline: Pipeline, mode: str) -> Iterator[None]:
    """Let the source's server be stopped until the end of the block."""
    cluster = pipeline.source.cluster
    cluster.stop(mode)  # gives up after a minute
    try:
        status = cluster.run("pg_ctl", "-D", str(cluster.data), "status", check=False)
        assert "no server running" in status
        yield
    finally:
        cluster.start()
        pipeline.source = pipeline.source.reconnect()


def test_a_loader_keeps_no_server_from_stopping_and_waits_for_it(
    make_pipeline: MakePipeline, spare: Cluster, cluster: Cluster
) -> None:
    pipeline = make_pipeline(spare, cluster)
    pipeline.begin()
    source = pipeline.source
    with pipeline.follow() as running:
        confirmed = "select confirmed_flush_lsn >= %s from pg_replication_slots"
        source.insert(5)
        inserted = source.value("select pg_current_wal_lsn()")
        wait_until(lambda: source.value(confirmed, inserted), "the inserts are stored")
        # After a move of the idle position, what the stop itself writes is too little for another.
        reached = source.value("select pg_logical_emit_message(false, 'test', repeat('x', 5000))")
        wait_until(lambda: source.value(confirmed, reached), "the slot follows")
        with stopped(pipeline, "fast"):
            running.wait_for(AWAY)
        running.wait_for("following the slot", 2)
        pipeline.source.insert(3)
        said = running.said().count(AWAY)
        with stopped(pipeline, "immediate"):
            running.wait_for(AWAY, said + 2)
        pipeline.source.insert(1)
        pipeline.wait_for_staged(5 + 5 + 3 + 1)
    assert re.search(r"everything before \S+ is stored; trying again in", running.said())
    pipeline.source.insert(4)
    with stopped(pipeline, "fast"):
        early = pipeline.start("--build")
        early.wait_for(AWAY)
    with early:
        wait_until(lambda: pipeline.differences() == [], "all rows are counted")
