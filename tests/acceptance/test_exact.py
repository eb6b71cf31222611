"""Random concurrent traffic with a seed in the middle of it: the fact equals a recount.

Ten random numbers under replica identity full. test_examples.py does the like under a covering
index, and `make test` by the README's own commands.
"""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from testkit.commands import wait_until
from testkit.databases import Database
from testkit.servers import Cluster
from tests.acceptance.pipeline import Pipeline


@pytest.mark.slow
@pytest.mark.parametrize("number", range(1, 11))
def test_the_fact_equals_a_recount(
    number: int, cluster: Cluster, database: Database, tmp_path: Path
) -> None:
    pipeline = Pipeline(cluster, database, tmp_path, "full", number)
    pipeline.traffic.start()
    try:
        pipeline.run("loader", "setup")
        pipeline.write()
        pipeline.run("loader", "run", "--once")
        seed_job = ["spark-submit", "spark/seed.py"]
        if number % 3 == 0:
            # A fact that was built before the seed must take the seed over. What it knows of purged
            # rows begins amid the traffic, where a recount cannot follow: the seed forgets it.
            pipeline.run("dbt", "build")
            seed_job.append("--forget-purged")
        pipeline.run(*seed_job)
        pipeline.write()
        if number % 2:
            between_bursts(pipeline)
        else:
            while_running(pipeline)
    finally:
        pipeline.traffic.stop()
    pipeline.run("loader", "run", "--once")
    pipeline.run("dbt", "build")
    assert pipeline.differences() == []
    pipeline.run("dbt", "run", "--full-refresh")
    assert pipeline.differences() == []


def between_bursts(pipeline: Pipeline) -> None:
    """Stage and build three times while the traffic goes on."""
    for _ in range(3):
        pipeline.run("loader", "run", "--once")
        pipeline.run("dbt", "run")
        pipeline.write()


def while_running(pipeline: Pipeline) -> None:
    """Let a loader stage and build, and run dbt beside it."""
    pipeline.run("dbt", "run")
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
        _, errors = loader.communicate(timeout=120)
    assert loader.returncode == 0, errors
