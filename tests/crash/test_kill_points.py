"""The loader dies at each named place; what follows is as if it had not."""

from __future__ import annotations

import signal
from pathlib import Path

import psycopg2.errors
import pytest

from demo.cluster import Cluster
from tests.acceptance.pipeline import Pipeline
from tests.support import Database
from tests.support.second_opinion import change_log, other_slot, second_opinion

PLACES = ["copy-chunk", "copy-chunk:2", "before-commit", "after-commit"]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("large", [False, True], ids=["small", "large"])
def test_nothing_is_lost_or_doubled_where_the_loader_dies(
    source: Database, place: str, large: bool
) -> None:
    other = other_slot(source)
    source.must("setup")
    source.insert(20)
    source.must("run", "--once")
    if large:
        source.insert(20_000)
        source.execute("update notifications set notification_status = 'sent'")
    else:
        for _ in range(20):
            source.insert(1)
    for _ in range(2):
        dead = source.loader("run", "--once", WALTALLY_KILL_AT=place)
        # In a repeated attempt the place may lie behind: everything is stored already.
        assert dead.returncode in (-signal.SIGKILL, 0)
        source.insert(3)
    source.must("run", "--once")
    assert change_log(source) == second_opinion(source, other)


@pytest.mark.parametrize("place", PLACES)
def test_every_named_place_is_reached(source: Database, place: str) -> None:
    source.must("setup")
    source.insert(1)
    dead = source.loader("run", "--once", WALTALLY_KILL_AT=place)
    assert dead.returncode == -signal.SIGKILL
    after = 1 if place == "after-commit" else 0
    assert source.staged() == after
    source.must("run", "--once")
    assert source.staged() == 1


@pytest.mark.slow
def test_amid_a_large_transaction_under_traffic_the_fact_stays_exact(
    cluster: Cluster, database: Database, tmp_path: Path
) -> None:
    pipeline = Pipeline(cluster, database, tmp_path, "full", 31)
    pipeline.run("loader", "setup")
    pipeline.run("spark-submit", "spark/seed.py")
    pipeline.traffic.start()
    for place in ("copy-chunk:40", "before-commit", "after-commit:2"):
        update_all(database)
        pipeline.write()
        pipeline.environment["WALTALLY_KILL_AT"] = place
        loader = pipeline.start("loader", "run", "--build")
        loader.communicate(timeout=120)
        assert loader.returncode == -signal.SIGKILL
    pipeline.traffic.stop()
    del pipeline.environment["WALTALLY_KILL_AT"]
    pipeline.run("loader", "run", "--once", "--build")
    assert pipeline.differences() == []


def update_all(database: Database) -> None:
    """Update every row in one transaction; it may meet the traffic in a deadlock and lose."""
    while True:
        try:
            database.execute("update notifications set notification_status = 'sending'")
        except psycopg2.errors.DeadlockDetected:
            continue
        return
