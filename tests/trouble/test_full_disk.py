"""A full disk is waited for, and said; once there is room, everything is staged and counted."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from testkit.databases import Database, application_database, empty_database
from testkit.fixtures import WAREHOUSE
from testkit.pipeline import Pipeline
from testkit.servers import Cluster, Server, administer


@contextmanager
def small_disk(place: Path, options: str) -> Iterator[Path]:
    """Mount a small file system in this folder, and yield the file that may take all of it."""
    mount = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("no right to mount a tmpfs, which is the small disk")
    try:
        yield place / "ballast"
    finally:
        subprocess.run(["umount", str(place)], check=True)


def test_a_full_disk_at_the_target(source: Database, cluster: Cluster, tmp_path: Path) -> None:
    """The target's tables are on a small disk; the server's WAL is elsewhere."""
    place = cluster.home / "small"
    place.mkdir()
    with small_disk(place, "size=48m,mode=0777") as ballast:
        cluster.run("/bin/mkdir", str(place / "space"))
        administer(cluster, f"create tablespace small location '{place / 'space'}'")
        try:
            with empty_database(cluster, WAREHOUSE, "tablespace small") as target:
                pipeline = Pipeline(source, tmp_path, target)
                outlasts(pipeline, ballast, "The target has no disk space")
        finally:
            administer(cluster, "drop tablespace small")
    place.rmdir()


def outlasts(pipeline: Pipeline, ballast: Path, words: str) -> None:
    """A loader waits while the ballast fills the disk, says so, and goes on without it."""
    pipeline.begin()
    with pipeline.follow() as running:
        with pytest.raises(OSError, match="No space left"), ballast.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(65536))
        pipeline.source.insert(500, text="x" * 20_000)
        running.wait_for(words, 2)
        assert "cannot be reached" not in running.said()
        assert re.search(r"everything before \S+ is stored", running.said())
        assert pipeline.staged() == 5
        ballast.unlink()
        pipeline.wait_for_staged(505)
    pipeline.goes_on()


def test_a_full_disk_where_the_source_decodes(tmp_path: Path) -> None:
    """The server decodes a large transaction on disk: it is there, and has no room."""
    server = Server({"fsync": "off", "logical_decoding_work_mem": "64kB"})
    slots = server.data / "pg_replslot"
    try:
        server.create()
        with small_disk(slots, f"size=24m,mode=0700,uid={slots.stat().st_uid}") as ballast:
            server.start()
            with application_database(server, WAREHOUSE) as source:
                outlasts(Pipeline(source, tmp_path), ballast, "The source has no disk space")
            server.stop("immediate")
    finally:
        server.remove()
