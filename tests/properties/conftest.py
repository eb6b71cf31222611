"""The models on one database that each example empties."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from testkit.servers import Server
from tests.dbt.project import Project
from tests.dbt.staged import Warehouse, set_environment

FACTS = ("ft_service_stats", "ft_orders", "ft_hours", "ft_kinds", "ft_clock")
"""The facts that the histories are of."""


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Warehouse]:
    with pytest.MonkeyPatch.context() as patch, Server({"fsync": "off"}) as cluster:
        set_environment(cluster, patch)
        made = Warehouse(cluster, Project(tmp_path_factory.mktemp("project")))
        made.build(*FACTS)
        yield made
        made.close()
