"""The source goes away, changes its password, or is another server: waited for, or refused."""

from __future__ import annotations

import contextlib
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from testkit.databases import Database
from testkit.fixtures import MakePipeline
from testkit.servers import Cluster, Server, connect

RETRY = "cannot be reached"


def test_a_server_that_is_gone_for_a_while(make_pipeline: MakePipeline, spare: Cluster) -> None:
    pipeline = make_pipeline(spare)
    pipeline.begin()
    with pipeline.follow() as running:
        pipeline.source.insert(2)
        pipeline.wait_for_staged(7)
        pipeline.source.insert(3)
        spare.stop("immediate")
        try:
            running.wait_for(RETRY, 2)
            assert "trying again in" in running.said()
        finally:
            spare.start()
        pipeline.source = pipeline.target = pipeline.source.reconnect()
        pipeline.source.insert(1)
        pipeline.wait_for_staged(11)
        assert running.said().count("following the slot") >= 2
        running.end()
    assert re.search(r"everything before \S+ is stored; trying again in", running.said())
    pipeline.goes_on()


def test_another_cluster(make_pipeline: MakePipeline, cluster: Cluster, spare: Cluster) -> None:
    """Another server with a database and a slot of the same name."""
    pipeline = make_pipeline(cluster, cluster)
    pipeline.begin()
    position = pipeline.position()
    with Database(spare, created(spare, pipeline.source.name)) as other:
        other.load_notify()
        other.execute("select pg_create_logical_replication_slot(%s, 'wal2json')", other.slot)
        usual, pipeline.source = pipeline.source, other
        for command in (("run",), ("setup",)):
            code, said = pipeline.refused(*command)
            assert code == 23
            assert f"everything before {position} is stored" in said
        assert pipeline.loader("status").returncode == 23
        pipeline.source = usual
        usual.insert(3)
        pipeline.goes_on()
        pipeline.source = other
        other.insert(3)
        # Nobody set up the slot there, so it is not dropped without a word.
        code, refused = pipeline.refused("setup", "--renew")
        assert code == 38 and "pg_drop_replication_slot" in refused
        other.execute("select pg_drop_replication_slot(%s)", other.slot)
        pipeline.recovers_from(said)
        pipeline.source = usual


@pytest.fixture
def small_slots() -> Iterator[tuple[Cluster, Path]]:
    """A server whose slots have 24 MB of disk, and where a file takes them up."""
    made = Server({"fsync": "off", "logical_decoding_work_mem": "64kB"})
    slots = made.data / "pg_replslot"
    try:
        made.create()
        options = f"size=24m,mode=0700,uid={slots.stat().st_uid}"
        if subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", slots]).returncode:
            pytest.skip("no right to mount a tmpfs, which is the small disk")
        try:
            made.start()
            yield made, slots / "ballast"
            made.stop("immediate")
        finally:
            subprocess.run(["umount", slots], check=True)
    finally:
        made.remove()


def test_a_full_disk_where_the_source_decodes(
    small_slots: tuple[Cluster, Path], make_pipeline: MakePipeline
) -> None:
    """The server decodes a large transaction on disk: it is there, and has no room."""
    server, ballast = small_slots
    pipeline = make_pipeline(server)
    pipeline.begin()
    with pipeline.follow() as running:
        with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(bytes(65536))
        pipeline.source.insert(500, text="x" * 20_000)
        running.wait_for("The source has no disk space", 2)
        assert "cannot be reached" not in running.said()
        assert pipeline.staged() == 5
        ballast.unlink()
        pipeline.wait_for_staged(505)
        running.end()
    pipeline.goes_on()


def created(cluster: Cluster, name: str) -> str:
    connection = connect(cluster.dsn())
    connection.cursor().execute(f"create database {name}")
    connection.close()
    return name
