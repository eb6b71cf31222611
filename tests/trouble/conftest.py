"""A server to be rough with, and scenes on it or on the shared one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from demo.cluster import Cluster
from loader.build.builder import Models
from tests.conftest import connect
from tests.support import Database
from tests.trouble.scene import Scene, profiles

WAREHOUSE = "trouble"
"""Where dbt builds: another name each time would make it parse everything again."""

Staging = Callable[..., Scene]


@pytest.fixture(scope="package")
def rough() -> Iterator[Cluster]:
    """A server that tests may stop and configure; each leaves it running."""
    with Cluster({"fsync": "off", "max_wal_size": "64MB", "min_wal_size": "32MB"}) as made:
        yield made


@pytest.fixture(scope="package")
def models() -> Models:
    """The models, parsed once."""
    return Models()


@pytest.fixture
def patch(tmp_path: Path) -> Iterator[pytest.MonkeyPatch]:
    """The environment of a dbt in this process, put back in the end."""
    with pytest.MonkeyPatch.context() as made:
        for name, value in profiles(tmp_path).items():
            made.setenv(name, value)
        yield made


@pytest.fixture
def staging(tmp_path: Path, models: Models, patch: pytest.MonkeyPatch) -> Iterator[Staging]:
    """Make a scene: a source on the first cluster, a target of its own on the second, if named."""
    with ExitStack() as databases:

        def make(source: Cluster, target: Cluster | None = None) -> Scene:
            here = databases.enter_context(new(source, "application" if target else WAREHOUSE))
            here.load_notify()
            there = databases.enter_context(new(target, WAREHOUSE)) if target else None
            return Scene(here, tmp_path, models, patch, there)

        yield make


@pytest.fixture
def scene(staging: Staging, cluster: Cluster) -> Scene:
    """A source that is its own target, on the shared server."""
    return staging(cluster)


@pytest.fixture
def apart(staging: Staging, cluster: Cluster) -> Scene:
    """A source and a target in two databases of the shared server."""
    return staging(cluster, cluster)


def new(cluster: Cluster, name: str) -> Database:
    connection = connect(cluster.dsn())
    connection.cursor().execute(f"create database {name}")
    connection.close()
    return Database(cluster, name)


def reconnect(database: Database) -> Database:
    """Return the database as it is after its server was away."""
    return Database(database.cluster, database.name)
