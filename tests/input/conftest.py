"""A database of a fixed name for each test, and the models parsed once for all of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from demo.cluster import Cluster
from loader.build.builder import Models
from tests.input.bench import Bench, environment, new_database


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where dbt finds its profile and leaves what it writes."""
    return tmp_path_factory.mktemp("dbt")


@pytest.fixture(scope="session")
def models() -> Models:
    """dbt in this process. The database's name is in what dbt parses, so it stays the same."""
    return Models()


@pytest.fixture
def bench(bare: Bench) -> Bench:
    """Notify's tables under replica identity full; loader and models not yet set up."""
    bare.database.load_notify()
    return bare


@pytest.fixture(autouse=True)
def dbt_environment(cluster: Cluster, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Name the database and the profile, for this test alone: other folders have dbt here too."""
    environment(monkeypatch, cluster, home)


@pytest.fixture
def bare(cluster: Cluster, models: Models) -> Iterator[Bench]:
    """An empty database."""
    with new_database(cluster) as database:
        yield Bench(database, models)
