"""A database with our functions, so that the compiler need not be installed each time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from loader.staging import migrate
from testkit.databases import Database, empty_database
from testkit.servers import Cluster, connect_target


@pytest.fixture(scope="module")
def database(cluster: Cluster) -> Iterator[Database]:
    with empty_database(cluster) as made:
        with closing(connect_target(cluster.dsn(made.name))) as target:
            migrate.upgrade(target)
        yield made
