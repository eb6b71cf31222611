"""Servers and databases for the tests: one cluster a session, one database a test."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator

import psycopg2
import pytest
from psycopg2 import extensions

from demo.cluster import Cluster
from tests.support import Database

_numbers = itertools.count()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out what takes a minute or more, unless every case is asked for."""
    if "WALTALLY_ALL_CASES" in os.environ:
        return
    for item in items:
        if item.get_closest_marker("slow"):
            item.add_marker(pytest.mark.skip(reason="slow: `make acceptance` runs it"))


@pytest.fixture(autouse=True)
def environment_as_it_was() -> Iterator[None]:
    """Put the environment back: a build in this process hands settings to dbt by it."""
    before = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    with Cluster({"fsync": "off", "max_replication_slots": "30", "max_wal_senders": "30"}) as made:
        yield made


@pytest.fixture
def database(cluster: Cluster) -> Iterator[Database]:
    """An empty database of its own on the session's cluster; its slots go with it."""
    with new_database(cluster)() as made:
        yield made


@pytest.fixture
def source(database: Database) -> Database:
    """A database with Notify's tables, replica identity full."""
    database.load_notify()
    return database


def new_database(cluster: Cluster) -> Callable[[], Database]:
    def make() -> Database:
        name = f"test_{next(_numbers)}"
        admin = connect(cluster.dsn())
        admin.cursor().execute(f"create database {name}")
        admin.close()
        return Database(cluster, name)

    return make


def connect(dsn: str) -> extensions.connection:
    connection = psycopg2.connect(dsn)
    connection.autocommit = True
    return connection
