"""The source goes away, changes its password, or is another server: waited for, or refused."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from demo.cluster import Cluster
from tests.conftest import connect
from tests.support import Database, wait_until
from tests.trouble.conftest import Staging, reconnect
from tests.trouble.scene import SECRET, Scene

RETRY = "cannot be reached"


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_a_server_that_is_gone_for_a_while(staging: Staging, rough: Cluster, mode: str) -> None:
    scene = staging(rough)
    scene.begin()
    with scene.follow() as running:
        scene.source.insert(2)
        scene.wait_for_staged(7)
        scene.source.insert(3)
        rough.stop(mode)
        try:
            running.wait_for(RETRY, 2)
            assert "trying again in" in running.said()
        finally:
            rough.start()
        scene.source = scene.target = reconnect(scene.source)
        scene.source.insert(1)
        scene.wait_for_staged(11)
        assert running.said().count("following the slot") >= 2
        running.end()
    assert re.search(r"everything before \S+ is stored; trying again in", running.said())
    scene.goes_on()


def test_a_target_that_is_gone_for_a_while(
    staging: Staging, cluster: Cluster, rough: Cluster
) -> None:
    scene = staging(cluster, rough)
    scene.begin()
    with scene.follow() as running:
        rough.stop()
        try:
            scene.source.insert(3)
            running.wait_for("The target cannot be reached", 2)
        finally:
            rough.start()
        scene.target = reconnect(scene.target)
        scene.wait_for_staged(8)
        running.end()
    scene.goes_on()


def test_a_changed_password(staging: Staging, rough: Cluster) -> None:
    scene = staging(rough)
    scene.begin()
    with password_wanted(rough, scene.source) as role:
        dsn = rough.dsn(scene.source.name, role, password=SECRET)
        with scene.follow(LOADER_SOURCE_DSN=dsn) as running:
            scene.source.execute(f"alter role {role} password 'another'")
            scene.source.insert(3)
            scene.wait_for_staged(8)
            assert running.process.poll() is None, "a session outlives its password"
            scene.source.execute(
                "select pg_terminate_backend(active_pid) from pg_replication_slots "
                "where slot_name = %s",
                scene.slot,
            )
            code, said = running.refuses()
            assert SECRET not in running.said()
        assert code == 10
        assert "password authentication failed" in said
        assert f"everything before {scene.position()} is stored" in said
        assert "LOADER_SOURCE_DSN" in said
        scene.source.insert(2)
        scene.source.execute(f"alter role {role} password '{SECRET}'")
        done = scene.loader("run", "--once", LOADER_SOURCE_DSN=dsn)
        assert done.returncode == 0, done.stderr
    scene.goes_on()


@contextmanager
def password_wanted(cluster: Cluster, database: Database) -> Iterator[str]:
    """A replicating role that must give the password SECRET."""
    role = "guarded"
    hba = cluster.data / "pg_hba.conf"
    before = hba.read_text()
    database.execute(f"create role {role} login replication password '{SECRET}'")
    hba.write_text(f"host all {role} 127.0.0.1/32 scram-sha-256\n{before}")
    database.execute("select pg_reload_conf()")
    try:
        yield role
    finally:
        hba.write_text(before)
        database.execute("select pg_reload_conf()")
        database.execute(f"drop role {role}")


def test_a_source_database_that_is_dropped(apart: Scene) -> None:
    apart.begin()
    admin = connect(apart.source.cluster.dsn())
    with apart.follow() as running, admin.cursor() as cursor:

        def dropped() -> bool:
            cursor.execute(
                "select pg_terminate_backend(active_pid) from pg_replication_slots "
                "where database = %s and active_pid is not null",
                (apart.source.name,),
            )
            cursor.execute(
                "select 1 from pg_replication_slots where database = %s and active_pid is not null",
                (apart.source.name,),
            )
            if cursor.fetchone():
                return False
            cursor.execute(f"drop database {apart.source.name} with (force)")
            return True

        wait_until(dropped, "the database is dropped")
        code, said = running.refuses()
        assert code == 10
        assert f'database "{apart.source.name}" does not exist' in said
        assert f"everything before {apart.position()} is stored" in said
        cursor.execute(f"create database {apart.source.name}")
    admin.close()
    apart.source = reconnect(apart.source)
    apart.source.load_notify()
    apart.source.insert(2, "sent")
    code, said = apart.refused("run", "--once")
    assert code == 21
    apart.recovers_from(said)


def test_another_cluster(staging: Staging, cluster: Cluster, rough: Cluster) -> None:
    """Another server with a database and a slot of the same name."""
    scene = staging(cluster, cluster)
    scene.begin()
    position = scene.position()
    with Database(rough, created(rough, scene.source.name)) as other:
        other.load_notify()
        other.execute("select pg_create_logical_replication_slot(%s, 'wal2json')", other.slot)
        usual, scene.source = scene.source, other
        for command in (("run",), ("setup",)):
            code, said = scene.refused(*command)
            assert code == 23
            assert f"everything before {position} is stored" in said
        assert scene.loader("status").returncode == 23
        scene.source = usual
        usual.insert(3)
        scene.goes_on()
        scene.source = other
        other.insert(3)
        # Nobody set up the slot there, so it is not dropped without a word.
        code, refused = scene.refused("setup", "--renew")
        assert code == 38 and "pg_drop_replication_slot" in refused
        other.execute("select pg_drop_replication_slot(%s)", other.slot)
        scene.recovers_from(said)
        scene.source = usual


def created(cluster: Cluster, name: str) -> str:
    connection = connect(cluster.dsn())
    connection.cursor().execute(f"create database {name}")
    connection.close()
    return name
