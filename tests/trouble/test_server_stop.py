"""A server that stops or is full needs nobody: a loader does not hold it up, and waits for it."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from testkit.commands import wait_until
from testkit.databases import application_database
from testkit.fixtures import WAREHOUSE, MakePipeline
from testkit.pipeline import Pipeline
from testkit.servers import Cluster, Server

AWAY = "The source cannot be reached"


@contextmanager
def stopped(pipeline: Pipeline) -> Iterator[None]:
    """Let the source's server be stopped until the end of the block."""
    cluster = pipeline.source.cluster
    cluster.stop()  # gives up after a minute
    try:
        assert not (cluster.data / "postmaster.pid").exists()
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
        pipeline.wait_for_staged(10)
        # After a move of the idle position, what the stop itself writes is too little for another.
        reached = source.value("select pg_logical_emit_message(false, 'test', repeat('x', 5000))")
        wait_until(lambda: source.value(confirmed, reached), "the slot follows")
        with stopped(pipeline):
            running.wait_for(AWAY)
        running.wait_for("following the slot", 2)
        pipeline.source.insert(3)
        pipeline.wait_for_staged(5 + 5 + 3)
    assert re.search(r"everything before \S+ is stored; trying again in", running.said())
    pipeline.source.insert(4)
    with stopped(pipeline):
        early = pipeline.start("--build")
        early.wait_for(AWAY)
    with early:
        wait_until(lambda: pipeline.differences() == [], "all rows are counted")


def test_a_full_disk_where_the_source_decodes(tmp_path: Path) -> None:
    """The server decodes a large transaction on disk: it is there, and has no room."""
    server = Server({"fsync": "off", "logical_decoding_work_mem": "64kB"})
    slots = server.data / "pg_replslot"
    try:
        server.create()
        options = f"size=24m,mode=0700,uid={slots.stat().st_uid}"
        mount = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(slots)]
        if subprocess.run(mount, capture_output=True).returncode:
            pytest.skip("no right to mount a tmpfs, which is the small disk")
        server.start()
        with application_database(server, WAREHOUSE) as source:
            pipeline = Pipeline(source, tmp_path)
            pipeline.begin()
            with pipeline.follow() as running:
                ballast = slots / "ballast"
                with pytest.raises(OSError, match="No space left"), ballast.open("wb", 0) as file:
                    while True:
                        file.write(bytes(65536))
                source.insert(500, text="x" * 20_000)
                running.wait_for("The source has no disk space", 2)
                assert "cannot be reached" not in running.said()
                assert pipeline.staged() == 5
                ballast.unlink()
                pipeline.wait_for_staged(505)
            pipeline.goes_on()
    finally:
        server.stop("immediate")
        subprocess.run(["umount", str(slots)])
        server.remove()
