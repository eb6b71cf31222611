"""The former names of what is in tests/support, until every folder uses the new ones."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from demo.cluster import Cluster
from loader.build.builder import Models
from tests.support.commands import profiles
from tests.support.databases import Database, empty_database
from tests.support.pipeline import DIMENSIONS, Pipeline, nonzero
from waltally.settings import Settings

__all__ = ["DATABASE", "DIMENSIONS", "SLOT", "Bench", "environment", "new_database", "nonzero"]

DATABASE = "bad_input"
SLOT = f"slot_{DATABASE}"


def environment(patch: pytest.MonkeyPatch, cluster: Cluster, home: Path) -> None:
    """Let dbt in this process find its profile and the database."""
    for name in [name for name in os.environ if name.startswith(("PG", "LOADER_", "DBT_"))]:
        patch.delenv(name)
    settings = {**cluster.environment(DATABASE), **profiles(home), "LOADER_SLOT": SLOT}
    for name, value in settings.items():
        patch.setenv(name, value)


def new_database(cluster: Cluster, options: str = "") -> Database:
    """Make the database anew."""
    return empty_database(cluster, DATABASE, options)


class Bench(Pipeline):
    """A pipeline in one database, with the profile that `environment` has written."""

    def __init__(self, database: Database, models: Models) -> None:
        super().__init__(database, Path(os.environ["DBT_PROFILES_DIR"]), models)
        self.database = database
        self.execute = database.execute
        self.value = database.value
        self.models = models

    @property
    def settings(self) -> Settings:
        return self.loader_settings
