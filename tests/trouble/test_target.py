"""The target is full, restored, without its schema, or denies a right."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from testkit.databases import Database
from testkit.fixtures import WAREHOUSE, MakePipeline
from testkit.pipeline import Pipeline
from testkit.servers import Cluster, connect


def test_a_right_that_is_taken_away(apart: Pipeline) -> None:
    apart.begin()
    apart.target.execute("create role writer login")
    apart.target.execute(
        "grant usage on schema cdc to writer; "
        "grant select, insert, update on all tables in schema cdc to writer"
    )
    dsn = apart.target.cluster.dsn(apart.target.name, "writer")
    try:
        with apart.follow(LOADER_TARGET_DSN=dsn) as running:
            apart.source.insert(1)
            apart.wait_for_staged(6)
            apart.target.execute("revoke insert on cdc.change_log from writer")
            apart.source.insert(2)
            code, said = running.refuses()
        assert code == 15
        assert "permission denied for table change_log" in said
        assert re.search(r"everything before \S+ is stored", said)
        assert "docs/roles.md" in said
        apart.target.execute("grant insert on cdc.change_log to writer")
        apart.goes_on()
    finally:
        apart.target.execute("drop owned by writer; drop role writer")


def test_a_staging_schema_dropped_under_a_loader(pipeline: Pipeline) -> None:
    pipeline.begin()
    with pipeline.follow() as running:
        pipeline.target.execute("drop schema cdc cascade")
        pipeline.source.insert(3)
        code, said = running.refuses()
    assert code == 20
    # Which one depends on whether the batch or a look at the record comes first.
    assert re.search(r"the slot still holds what was not stored|everything before \S+ is st", said)
    pipeline.recovers_from(said)


def test_a_target_that_does_not_take_the_rows_is_logged(pipeline: Pipeline) -> None:
    pipeline.begin()
    pipeline.limits.log_progress = 0.5
    holder = connect(pipeline.target.cluster.dsn(pipeline.target.name))
    holder.autocommit = False
    with pipeline.follow() as running:
        holder.cursor().execute("lock table cdc.change_log in share mode")
        pipeline.source.insert(3)
        running.wait_for("a batch has been open for")
        holder.rollback()
        holder.close()
        pipeline.wait_for_staged(8)
        running.end()
    pipeline.goes_on()


def test_a_target_restored_from_an_older_backup(apart: Pipeline) -> None:
    apart.begin()
    backup(apart.target)
    apart.source.insert(3)
    apart.must("run", "--once")
    restore(apart)
    position = apart.position()
    for command in (("run",), ("setup",)):
        code, said = apart.refused(*command)
        assert code == 22
        assert "the target was restored" in said
        assert f"everything before {position} is stored, changes between are lost" in said
    apart.recovers_from(said)


def backup(target: Database) -> None:
    """Copy the target's database as it is."""
    admin = connect(target.cluster.dsn())
    admin.cursor().execute(
        "select pg_terminate_backend(pid) from pg_stat_activity where datname = %s", (target.name,)
    )
    admin.cursor().execute(f"create database backup template {target.name}")
    admin.close()


def restore(pipeline: Pipeline) -> None:
    """Put the copy in the target's place."""
    admin = connect(pipeline.target.cluster.dsn())
    admin.cursor().execute(f"drop database {pipeline.target.name} with (force)")
    admin.cursor().execute(f"alter database backup rename to {pipeline.target.name}")
    admin.close()
    pipeline.target = pipeline.target.reconnect()


@pytest.fixture
def small_disk(cluster: Cluster) -> Iterator[Path]:
    """A file system of 48 MB for the target's tables; the server's WAL is elsewhere."""
    place = cluster.home / "small"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=48m,mode=0777", "tmpfs", str(place)],
        capture_output=True,
    )
    if mounted.returncode:
        place.rmdir()
        pytest.skip("no right to mount a tmpfs, which is the small disk")
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)
        place.rmdir()


def test_a_full_disk_at_the_target(
    make_pipeline: MakePipeline, cluster: Cluster, small_disk: Path
) -> None:
    pipeline = make_pipeline(cluster, cluster)
    admin = connect(cluster.dsn())
    with admin.cursor() as cursor:
        space = small_disk / "space"
        cluster.run("/bin/mkdir", str(space))
        cursor.execute(f"create tablespace small location '{space}'")
        pipeline.target.connection.close()
        cursor.execute(f"alter database {WAREHOUSE} set tablespace small")
        pipeline.target = pipeline.target.reconnect()
        try:
            pipeline.begin()
            ballast = small_disk / "ballast"
            with pipeline.follow() as running:
                fill(ballast)
                pipeline.source.insert(500, text="x" * 20_000)
                running.wait_for("has no disk space", 2)
                assert re.search(r"everything before \S+ is stored", running.said())
                assert pipeline.staged() == 5
                ballast.unlink()
                pipeline.wait_for_staged(505)
                running.end()
            pipeline.goes_on()
        finally:
            pipeline.target.connection.close()
            cursor.execute(f"alter database {WAREHOUSE} set tablespace pg_default")
            pipeline.target = pipeline.target.reconnect()
            cursor.execute("drop tablespace small")
    admin.close()


def fill(ballast: Path) -> None:
    """Take all the space there is."""
    with pytest.raises(OSError, match="No space left"), ballast.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(65536))
