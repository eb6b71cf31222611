"""Servers whose WAL begins in a later window, and a pipeline whose log began before."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from testkit.databases import application_database
from testkit.fixtures import WAREHOUSE
from testkit.models import Models
from testkit.pipeline import Pipeline
from testkit.servers import Cluster
from tests.operations.prune.windows import backfill, server


@pytest.fixture(scope="session")
def window_five() -> Iterator[Cluster]:
    """A server in window 5: its log may have begun before."""
    with server("000000010000000500000001") as cluster:
        yield cluster


@pytest.fixture(scope="session")
def window_one() -> Iterator[Cluster]:
    """A server in window 1, where the log of the other one once began."""
    with server("000000010000000100000001") as cluster:
        yield cluster


@pytest.fixture
def pipeline(window_five: Cluster, tmp_path: Path, models: Models) -> Iterator[Pipeline]:
    """A seeded source with a log that began at 1/0, a partition each window.

    What it stages and what the test adds is in one partition.
    """
    with application_database(window_five, WAREHOUSE) as database:
        database.begin_block()
        made = Pipeline(database, tmp_path, models)
        made.begin()
        backfill(made)
        yield made
