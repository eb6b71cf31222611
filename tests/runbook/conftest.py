"""Operators at work on pipelines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from testkit.notify_traffic import NO_PURGES, Traffic
from testkit.pipeline import Pipeline
from testkit.source import Identity
from tests.runbook.procedure import Operator

Operating = Callable[..., Operator]


@pytest.fixture
def operating() -> Iterator[Operating]:
    """Give an operator a pipeline that has begun; with an identity, traffic is on it."""
    with ExitStack() as stack:

        def make(pipeline: Pipeline, identity: Identity | None = None) -> Operator:
            pipeline.begin()
            operator = Operator(pipeline)
            stack.callback(operator.close)
            if identity:
                dsn = pipeline.source.cluster.dsn(pipeline.source.name)
                operator.traffic = Traffic(
                    dsn, sessions=2, rate=100, identity=identity, weights=NO_PURGES
                )
                operator.traffic.start()
            return operator

        yield make
