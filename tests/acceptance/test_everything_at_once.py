"""All that may run at the same time, at the same time."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from testkit.commands import wait_until
from testkit.databases import Database
from testkit.servers import Cluster
from tests.acceptance.pipeline import Pipeline


@pytest.mark.slow
def test_everything_at_once_under_traffic(
    cluster: Cluster, database: Database, tmp_path: Path
) -> None:
    """A loader builds while a seed, full refreshes and a setup run."""
    pipeline = Pipeline(cluster, database, tmp_path, "full", 11)
    pipeline.run("loader", "setup")
    pipeline.run("dbt", "run")
    pipeline.traffic.start()
    loader = pipeline.start("loader", "run", "--build")
    try:
        fact = "select to_regclass('analytics.ft_service_stats') is not null"
        wait_until(lambda: database.value(fact) or loader.poll() is not None, "the fact is there")
        seed = pipeline.start("spark-submit", "spark/seed.py")
        build = pipeline.start("dbt", "run", "--full-refresh")
        pipeline.run("loader", "setup")
        output, _ = build.communicate(timeout=300)
        assert build.returncode == 0 or "the baseline was replaced during" in output
        _, errors = seed.communicate(timeout=300)
        assert seed.returncode == 0, errors
        pipeline.run("dbt", "run", "--full-refresh")
        pipeline.write()
        assert loader.poll() is None
    finally:
        pipeline.traffic.stop()
        loader.send_signal(signal.SIGTERM)
        _, errors = loader.communicate(timeout=120)
    assert loader.returncode == 0, errors
    pipeline.run("loader", "run", "--once", "--build")
    assert pipeline.differences() == []
