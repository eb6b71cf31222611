"""Everything that may run beside everything else, at the same time."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from demo.cluster import Cluster
from tests.acceptance.pipeline import Pipeline
from tests.support import Database, wait_until


@pytest.mark.slow
def test_everything_at_once_under_traffic(
    cluster: Cluster, database: Database, tmp_path: Path
) -> None:
    """A loader that builds; a seed, full refreshes, builds and a setup come in between."""
    pipeline = Pipeline(cluster, database, tmp_path, "full", 11)
    pipeline.run("loader", "setup")
    pipeline.traffic.start()
    loader = pipeline.start("loader", "run", "--build")
    try:
        fact = "select to_regclass('analytics.ft_service_stats') is not null"
        wait_until(lambda: database.value(fact) or loader.poll() is not None, "the fact is there")
        seed = pipeline.start("spark-submit", "spark/seed.py")
        build = pipeline.start("dbt", "run", "--full-refresh")
        pipeline.run("loader", "setup")
        said, _ = build.communicate(timeout=300)
        assert build.returncode == 0 or "the baseline was replaced during" in said
        _, said = seed.communicate(timeout=300)
        assert seed.returncode == 0, said
        pipeline.run("dbt", "run", "--full-refresh")
        pipeline.write()
        assert loader.poll() is None
    finally:
        pipeline.traffic.stop()
        loader.send_signal(signal.SIGTERM)
        _, said = loader.communicate(timeout=60)
    assert loader.returncode == 0, said
    pipeline.run("loader", "run", "--once", "--build")
    assert pipeline.differences() == []
