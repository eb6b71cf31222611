"""A private server with the staging tables, and a project that builds on it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import psycopg2
import pytest

from demo.cluster import Cluster
from loader.staging.migrate import migrations
from tests.dbt.warehouse import DATABASE, Warehouse

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    with Cluster({"fsync": "off"}) as server:
        with psycopg2.connect(server.dsn()) as connection, connection.cursor() as cursor:
            cursor.execute("create schema cdc; set search_path = cdc")
            for _, _, migration in migrations():
                cursor.execute(migration)
            cursor.execute(
                "create table change_log_all partition of change_log "
                "for values from ('0/0') to ('FFFFFFFF/FFFFFFFF')"
            )
            cursor.execute("set search_path = public")
            cursor.execute((ROOT / "demo/notify.sql").read_text())
        connection.close()
        yield server


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project with the example facts beside its own, and the profile."""
    home = tmp_path_factory.mktemp("project")
    (home / "dbt_project").symlink_to(ROOT / "dbt_project")
    (home / "examples").symlink_to(ROOT / "tests/dbt/examples")
    settings = (ROOT / "dbt_project.yml").read_text()
    paths = "model-paths: [dbt_project/models"
    assert paths in settings
    (home / "dbt_project.yml").write_text(settings.replace(paths, f"{paths}, examples"))
    shutil.copy(ROOT / "profiles.yml.example", home / "profiles.yml")
    return home


@pytest.fixture
def warehouse(
    cluster: Cluster, project: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Warehouse]:
    """A fresh database. Its name stays: another one would make dbt parse everything again."""
    for variable in [name for name in os.environ if name.startswith(("PG", "LOADER_", "DBT_"))]:
        monkeypatch.delenv(variable)
    for variable, value in cluster.environment(DATABASE).items():
        monkeypatch.setenv(variable, value)
    server = psycopg2.connect(cluster.dsn("template1"))
    server.autocommit = True
    with server.cursor() as cursor:
        cursor.execute(f"drop database if exists {DATABASE} with (force)")
        cursor.execute(f"create database {DATABASE} template postgres")
    server.close()
    made = Warehouse(cluster, project)
    yield made
    made.connection.close()
