from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "spark")]

from demo.cluster import Cluster  # noqa: E402
from tests.spark.archives import local_spark  # noqa: E402
from tests.spark.support import Source, wait_until  # noqa: E402


@pytest.fixture(scope="session", autouse=True)
def clean_environment() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            if name.startswith(("PG", "LOADER_", "PYSPARK", "SPARK")):
                patch.delenv(name)
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        yield


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    with local_spark() as session:
        yield session


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    # Only a session that asks for synchronous_commit = on waits for the standby, which never comes.
    waiting = {"synchronous_standby_names": "'missing'", "synchronous_commit": "local"}
    with Cluster({**waiting, "fsync": "off"}) as started:
        with psycopg.connect(started.dsn(), autocommit=True) as connection:
            connection.execute("create database template_notify")
        with psycopg.connect(started.dsn("template_notify"), autocommit=True) as connection:
            connection.execute((ROOT / "demo/notify.sql").read_bytes())
            connection.execute("create schema cdc")
            connection.execute("set search_path = cdc")
            for migration in sorted((ROOT / "loader/staging/migrations").glob("*.sql")):
                connection.execute(migration.read_bytes())
            connection.execute("set search_path = public")
            for table in ("notifications", "notification_history"):
                connection.execute(f"alter table {table} replica identity full")
        yield started


@pytest.fixture
def source(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[Source]:
    name = request.node.name.split("[")[0][:50]
    with psycopg.connect(cluster.dsn(), autocommit=True) as admin:
        admin.execute(f'create database "{name}" template template_notify')
        made = Source(cluster, name)
        with made.connect() as connection:
            connection.execute(
                "insert into cdc.slot_position (slot_name, system_identifier, source_database,"
                " start_lsn, position_lsn, registered_tables)"
                " select %s, system_identifier, current_database(),"
                " pg_current_wal_lsn(), pg_current_wal_lsn(),"
                """ '[["public", "notifications"], ["public", "notification_history"]]'"""
                " from pg_control_system()",
                (made.slot,),
            )
        yield made
        made.close()
        temporary = (
            "select 1 from pg_replication_slots where database = %s and temporary and active"
        )
        # A session that was ended takes a moment to give up its slot.
        wait_until(lambda: not admin.execute(temporary, (name,)).fetchall())
        admin.execute(
            "select pg_drop_replication_slot(slot_name) from pg_replication_slots"
            " where database = %s",
            (name,),
        )
        admin.execute(f'drop database "{name}" with (force)')
