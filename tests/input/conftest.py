"""A database of a fixed name for each test, and the models parsed once for all of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from demo.cluster import Cluster
from loader.build import Models
from tests.input.bench import Bench, environment, new_database


@pytest.fixture(scope="session")
def models(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Models]:
    """dbt in this process. The database's name is in what dbt parses, so it stays the same."""
    with pytest.MonkeyPatch.context() as patch:
        environment(patch, cluster, tmp_path_factory.mktemp("dbt"))
        yield Models()


@pytest.fixture
def bench(cluster: Cluster, models: Models) -> Iterator[Bench]:
    """Notify's tables under replica identity full; loader and models not yet set up."""
    with new_database(cluster) as database:
        database.load_notify()
        yield Bench(database, models)


@pytest.fixture
def bare(cluster: Cluster, models: Models) -> Iterator[Bench]:
    """An empty database."""
    with new_database(cluster) as database:
        yield Bench(database, models)
