"""The models of a test of its own: registered, or also installed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from testkit.databases import application_database
from testkit.fixtures import WAREHOUSE
from testkit.servers import Cluster
from tests.dbt.warehouse import MODELS, Warehouse


@pytest.fixture
def warehouse(cluster: Cluster, tmp_path: Path) -> Iterator[Warehouse]:
    """Three models that are registered."""
    with application_database(cluster, WAREHOUSE) as database:
        made = Warehouse(database, tmp_path)
        made.register()
        yield made


@pytest.fixture
def built(warehouse: Warehouse) -> Warehouse:
    """Three models that follow, and changes that are not applied yet."""
    warehouse.put(*MODELS)
    warehouse.write()
    warehouse.apply()
    warehouse.write()
    return warehouse
