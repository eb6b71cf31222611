"""Scenes as the tests of trouble have them, and operators at work on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from demo.source import Identity
from demo.traffic import Traffic
from tests.runbook.procedure import Operator
from tests.trouble.conftest import (  # noqa: F401  # fixtures
    apart,
    models,
    patch,
    rough,
    scene,
    staging,
)
from tests.trouble.scene import Scene

Operating = Callable[..., Operator]

NO_PURGES = {"history_purge": 0, "purge_and_archive_again": 0}
"""Without them the archive's recount is a plain count of its rows."""


@pytest.fixture
def operating() -> Iterator[Operating]:
    """Give an operator a scene that has begun; with an identity, traffic is on it."""
    with ExitStack() as stack:

        def make(scene: Scene, identity: Identity | None = None) -> Operator:
            scene.begin()
            operator = Operator(scene)
            stack.callback(operator.close)
            if identity:
                dsn = scene.source.cluster.dsn(scene.source.name)
                operator.traffic = Traffic(
                    dsn, sessions=2, rate=100, identity=identity, weights=NO_PURGES
                )
                operator.traffic.start()
            return operator

        yield make
