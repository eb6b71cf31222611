"""One server and one parsed project for all tests of a folder, and a fresh database for each."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from testkit.servers import Cluster
from tests.dbt.project import Project
from tests.dbt.staged import Warehouse, set_environment, warehouse_cluster


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    with warehouse_cluster() as server:
        yield server


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return Project(tmp_path_factory.mktemp("project"))


@pytest.fixture
def warehouse(
    cluster: Cluster, project: Project, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Warehouse]:
    set_environment(cluster, monkeypatch)
    made = Warehouse(cluster, project)
    yield made
    made.close()
