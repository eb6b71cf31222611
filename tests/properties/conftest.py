"""The models, parsed once, on one database that each example empties."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from demo.cluster import Cluster
from loader.build.builder import Models
from tests.input.bench import Bench, environment, new_database
from tests.properties.warehouse import Warehouse


@pytest.fixture(scope="module")
def warehouse(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Warehouse]:
    with pytest.MonkeyPatch.context() as patch, new_database(cluster) as database:
        environment(patch, cluster, tmp_path_factory.mktemp("dbt"))
        database.load_notify()
        bench = Bench(database, Models())
        bench.set_up()
        yield Warehouse(bench)
