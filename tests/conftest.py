"""What holds for every test: which ones run, and the fixtures of tests/fixtures."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.support.commands import only_environment

pytest_plugins = [
    "tests.fixtures.servers",
    "tests.fixtures.databases",
    "tests.fixtures.pipelines",
]


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
    with only_environment(dict(os.environ)):
        yield
