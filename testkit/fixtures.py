"""The fixtures of every folder: servers, databases and pipelines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from testkit.databases import Database, application_database, empty_database
from testkit.pipeline import Pipeline
from testkit.servers import Cluster, Server
from testkit.standbys import Family


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """The server of the whole test process; it stays up and as it is."""
    many = dict.fromkeys(("max_replication_slots", "max_wal_senders"), "30")
    with Server({"fsync": "off", "max_prepared_transactions": "5", **many}) as made:
        yield made


@pytest.fixture(scope="session")
def spare() -> Iterator[Cluster]:
    """A second server, which tests may stop and configure; each leaves it running."""
    with Server({"fsync": "off", "max_wal_size": "64MB", "min_wal_size": "32MB"}) as made:
        yield made


@pytest.fixture
def family() -> Iterator[Family]:
    """A server of the test's own, which it can copy and give standbys."""
    with Family() as made:
        yield made


@pytest.fixture
def database(cluster: Cluster) -> Iterator[Database]:
    """An empty database."""
    with empty_database(cluster) as made:
        yield made


@pytest.fixture
def source(cluster: Cluster) -> Iterator[Database]:
    """A database with the application's tables, replica identity full."""
    with application_database(cluster) as made:
        yield made


WAREHOUSE = "warehouse"
"""Where dbt builds. With another name dbt would parse all models again."""

MakePipeline = Callable[..., Pipeline]


@pytest.fixture
def make_pipeline(tmp_path: Path) -> Iterator[MakePipeline]:
    """Make a pipeline from the first server to the second; without one, in a single database."""
    with ExitStack() as databases:

        def make(source: Cluster, target: Cluster | None = None) -> Pipeline:
            name = "application" if target else WAREHOUSE
            here = databases.enter_context(application_database(source, name))
            there = databases.enter_context(empty_database(target, WAREHOUSE)) if target else None
            return Pipeline(here, tmp_path, there)

        yield make


@pytest.fixture
def pipeline(make_pipeline: MakePipeline, cluster: Cluster) -> Pipeline:
    """A source that is its own target, on the shared server; nothing is set up."""
    return make_pipeline(cluster)


@pytest.fixture
def apart(make_pipeline: MakePipeline, cluster: Cluster) -> Pipeline:
    """A source and a target in two databases of the shared server; nothing is set up."""
    return make_pipeline(cluster, cluster)
