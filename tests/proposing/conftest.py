"""A database with our functions, so that the compiler need not be installed each time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from testkit.databases import Database, empty_database
from testkit.servers import Cluster


@pytest.fixture(scope="module")
def database(cluster: Cluster) -> Iterator[Database]:
    with empty_database(cluster) as made:
        yield made.with_functions()
