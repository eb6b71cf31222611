"""The real loader and the real models in this process, on a database of a real server."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from pathlib import Path
from threading import Event
from typing import Any

import psycopg2
import pytest

from demo.cluster import Cluster
from loader.build.builder import Models, export_target
from loader.capture.follow import follow
from loader.capture.run_state import RunState
from loader.preflight import setup
from tests.support import ROOT, Database
from waltally.settings import DEFAULT_SCHEMA, DEFAULT_TABLES, Settings
from waltally.tables import parse_tables

DATABASE = "bad_input"
SLOT = f"slot_{DATABASE}"
DIMENSIONS = ("service_id", "template_id", "notification_type", "notification_status")

Group = tuple[str, ...]


def environment(patch: pytest.MonkeyPatch, cluster: Cluster, home: Path) -> None:
    """Let dbt in this process find its profile and the database."""
    for name in [name for name in os.environ if name.startswith(("PG", "LOADER_", "DBT_"))]:
        patch.delenv(name)
    shutil.copy(ROOT / "profiles.yml.example", home / "profiles.yml")
    settings = {
        **cluster.environment(DATABASE),
        "LOADER_SLOT": SLOT,
        "DBT_PROFILES_DIR": str(home),
        "DBT_PROJECT_DIR": str(ROOT),
        "DBT_TARGET_PATH": str(home / "target"),
    }
    for name, value in settings.items():
        patch.setenv(name, value)


def new_database(cluster: Cluster, options: str = "") -> Database:
    """Make the database anew."""
    admin = psycopg2.connect(cluster.dsn())
    admin.autocommit = True
    with admin.cursor() as cursor:
        cursor.execute(f"create database {DATABASE} {options}")
    admin.close()
    return Database(cluster, DATABASE)


class Bench:
    """A source, and the pipeline on it."""

    def __init__(self, database: Database, models: Models) -> None:
        self.database = database
        self.execute = database.execute
        self.value = database.value
        self.models = models
        self.tables = DEFAULT_TABLES
        self.target = ""

    @property
    def settings(self) -> Settings:
        dsn = self.database.cluster.dsn(DATABASE)
        return Settings.of(dsn, self.target or dsn, SLOT, self.tables, DEFAULT_SCHEMA)

    def set_up(self, tables: str = DEFAULT_TABLES) -> None:
        """Make slot and staging schema for these tables."""
        self.tables = tables
        setup.set_up(self.settings, timeout=30, renew=False)

    def stage(self) -> None:
        """Follow the slot up to what is committed now."""
        follow(self.settings, Event(), RunState(), once=True)

    def build(self, exported: bool = False) -> None:
        """Apply the models with the tables as the loader got them, or as it hands them on."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("LOADER_TABLES", self.tables)
            if exported:
                export_target(self.settings)
            self.models.apply()

    def catch_up(self) -> None:
        """Stage and build."""
        self.stage()
        self.build()

    def fact(self) -> tuple[Counter[Group], Counter[Group]]:
        """What the fact says of live and archived rows, by group."""
        live, archived = Counter[Group](), Counter[Group]()
        for *group, live_count, archived_count in self.execute(
            f"select {', '.join(f'{name}::text' for name in DIMENSIONS)}, "
            "live_count, archived_count from analytics.ft_service_stats"
        ):
            live[tuple(group)] = live_count
            archived[tuple(group)] = archived_count
        return nonzero(live), nonzero(archived)

    def recount(self) -> tuple[Counter[Group], Counter[Group]]:
        """What counting the rows of both tables gives."""
        live, archived = parse_tables(self.tables)[:2]
        return self.rows_of(live.quoted), self.rows_of(archived.quoted)

    def rows_of(self, table: str) -> Counter[Group]:
        names = ", ".join(f"{name}::text" for name in DIMENSIONS)
        found = self.execute(
            f"select {names}, count(*) from {table} "
            f"where num_nulls({', '.join(DIMENSIONS)}) = 0 group by 1, 2, 3, 4"
        )
        return Counter({tuple(group): count for *group, count in found})

    def rejected(self) -> list[tuple[Any, ...]]:
        """Action and reason of each rejected change, in order."""
        return self.execute(
            "select action, reason from analytics.rejected_changes order by commit_lsn, ordinal"
        )

    def must_be_exact(self) -> None:
        """Catch up; fail where fact and recount differ or a change was rejected."""
        self.catch_up()
        assert self.rejected() == []
        assert self.fact() == self.recount()


def nonzero(counts: Counter[Group]) -> Counter[Group]:
    return Counter({group: count for group, count in counts.items() if count})
