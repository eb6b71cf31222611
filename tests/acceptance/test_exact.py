"""Random concurrent traffic, the seed in the middle of it: the fact equals a recount.

`make acceptance` runs ten random seeds under both identities; `make test` two of them.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from demo.cluster import Cluster
from demo.source import Identity
from tests.acceptance.pipeline import Pipeline
from tests.support import Database, wait_until

IDENTITIES: tuple[Identity, ...] = ("full", "covering")
CASES: list[tuple[int, Identity]] = [(3, "full"), (2, "covering")]
if os.environ.get("WALTALLY_ALL_CASES"):
    CASES = [(seed, identity) for seed in range(1, 11) for identity in IDENTITIES]


@pytest.mark.parametrize(("seed", "identity"), CASES)
def test_the_fact_equals_a_recount(
    seed: int, identity: Identity, cluster: Cluster, database: Database, tmp_path: Path
) -> None:
    pipeline = Pipeline(cluster, database, tmp_path, identity, seed)
    pipeline.traffic.start()
    try:
        pipeline.run("loader", "setup")
        pipeline.write()
        pipeline.run("loader", "run", "--once")
        seed_job = ["spark-submit", "spark/seed.py"]
        if seed % 3 == 0:
            # A fact that was built before there was a seed must take it up. What it knows of purged
            # rows begins in the middle of the traffic, so the recount could not tell it.
            pipeline.run("dbt", "build")
            seed_job.append("--forget-purged")
        pipeline.run(*seed_job)
        pipeline.write()
        if seed % 2:
            between_bursts(pipeline)
        else:
            while_running(pipeline)
    finally:
        pipeline.traffic.stop()
    pipeline.run("loader", "run", "--once")
    pipeline.run("dbt", "build")
    assert pipeline.differences() == []
    pipeline.run("dbt", "test", "--vars", "recount: true")
    pipeline.run("dbt", "run", "--full-refresh")
    assert pipeline.differences() == []


def between_bursts(pipeline: Pipeline) -> None:
    """Stage and build while the traffic goes on, again and again."""
    for _ in range(3):
        pipeline.run("loader", "run", "--once")
        pipeline.run("dbt", "run")
        pipeline.write()


def while_running(pipeline: Pipeline) -> None:
    """Let a loader follow and build, and builds from outside come in between."""
    loader = pipeline.start("loader", "run", "--build")
    try:
        fact = "select to_regclass('analytics.ft_service_stats') is not null"
        wait_until(
            lambda: loader.poll() is not None or pipeline.database.value(fact), "the fact is built"
        )
        pipeline.write()
        pipeline.run("dbt", "run")
        pipeline.write()
    finally:
        loader.send_signal(signal.SIGTERM)
        _, said = loader.communicate(timeout=60)
    assert loader.returncode == 0, said
