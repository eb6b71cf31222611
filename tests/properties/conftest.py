"""The models on one database that each example empties."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from testkit.servers import Cluster
from tests.dbt.project import shared_project
from tests.dbt.staged import Warehouse, set_environment

FACTS = ("ft_service_stats", "ft_orders", "ft_hours", "ft_kinds", "ft_clock")
"""The facts that the histories are of."""


@pytest.fixture(scope="module")
def warehouse(cluster: Cluster) -> Iterator[Warehouse]:
    """A warehouse of the module, whose models follow."""
    with pytest.MonkeyPatch.context() as patch:
        set_environment(cluster, patch)
        made = Warehouse(cluster, shared_project())
        made.build(*FACTS)
        yield made
        made.close()
