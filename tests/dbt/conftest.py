"""One parsed project for all tests of a folder, and a database of its own for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from testkit.servers import Cluster
from tests.dbt.project import shared_project
from tests.dbt.staged import Warehouse, set_environment


@pytest.fixture
def warehouse(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[Warehouse]:
    """A warehouse whose models are there, and registered where the test installs them."""
    set_environment(cluster, monkeypatch)
    made = Warehouse(cluster, shared_project())
    yield made
    made.close()
