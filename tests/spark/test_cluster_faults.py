"""A seed that loses a part of its cluster changes no number and leaves nothing half written."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable

import pytest

from testkit.commands import wait_until
from testkit.spark_cluster import SparkCluster, Worker, spark_cluster
from tests.spark.support import Source
from tests.spark.traffic import ends_as_a_recount, writing
from waltally import lsn

SMALL = {"spark.executor.memory": "512m"}

pytestmark = pytest.mark.slow


def kill(worker: Worker) -> None:
    executors = worker.executors()
    worker.process.kill()
    for executor in executors:
        executor.kill()


def kill_worker(workers: SparkCluster) -> None:
    kill(workers.workers[0])


def kill_master(workers: SparkCluster) -> None:
    workers.master.kill()


@pytest.mark.parametrize("kill", [kill_worker, kill_master])
def test_a_seed_that_loses_a_part_of_the_cluster_is_exact(
    source: Source, workers: SparkCluster, kill: Callable[[SparkCluster], None]
) -> None:
    source.execute("select pg_create_logical_replication_slot('truth', 'wal2json')")
    source.fill_many()
    with writing(source, 2):
        with source.seed_that_waits_to_write(
            "--json", tasks=2, master=workers.url, conf=SMALL
        ) as seed:
            kill(workers)
        out, err = seed.communicate(timeout=180)
    assert seed.returncode == 0, err
    ends_as_a_recount(source, lsn.parse(json.loads(out)["snapshot_lsn"]))
    assert not source.tables_of_jobs()


def test_a_task_that_is_lost_after_its_commit_stores_no_row_twice(source: Source) -> None:
    source.fill_many()
    # Each task that the first worker runs commits and dies, before Spark hears of it. The other
    # worker is to try it again.
    conf = {
        **SMALL,
        "spark.excludeOnFailure.enabled": "true",
        "spark.excludeOnFailure.task.maxTaskAttemptsPerNode": "3",
    }
    with spark_cluster(2, {"WALTALLY_KILL_AT": "copied"}) as workers:
        code, _, err = source.submit("--partitions", "4", master=workers.url, conf=conf)
        assert code == 0, err
        logs = (workers.workers[0].home).glob("app-*/*/stderr")
        assert any("Python worker exited unexpectedly" in each.read_text() for each in logs)
    assert source.baseline() == source.recount()


def test_a_lost_driver_leaves_the_previous_seed_and_the_next_one_is_exact(
    source: Source, workers: SparkCluster
) -> None:
    source.fill_many()
    source.previous_seed()
    with source.seed_that_waits_to_write("--forget-purged", master=workers.url, conf=SMALL) as seed:
        os.kill(seed.pid, signal.SIGKILL)
        out, err = seed.communicate(timeout=120)
        assert seed.returncode != 0
        assert "Traceback" not in out + err
        assert source.has_previous_seed()
    # Nobody is left to tell them to end.
    wait_until(lambda: not any(worker.executors() for worker in workers.workers))
    sessions = "select 1 from pg_stat_activity where application_name = 'waltally seed'"
    wait_until(lambda: not source.execute(sessions))
    assert source.has_previous_seed()

    code, _, err = source.submit("--forget-purged", master=workers.url, conf=SMALL)
    assert code == 0, err
    assert source.baseline() == source.recount()
    assert not source.tables_of_jobs()


def test_a_cluster_that_lost_every_executor_ends_the_seed_and_frees_the_source(
    source: Source, workers: SparkCluster
) -> None:
    source.fill_many()
    source.previous_seed()
    with source.seed_that_waits_to_write(
        "--forget-purged", "--timeout", "20", master=workers.url, conf=SMALL
    ) as seed:
        for worker in workers.workers:
            kill(worker)
    _, err = seed.communicate(timeout=120)
    assert seed.returncode == 47, err
    assert "has had no executor for --timeout, and the seed gave up" in err
    assert "Traceback" not in err
    slots = "select 1 from pg_replication_slots where slot_name ~ '^waltally_seed_'"
    wait_until(lambda: not source.execute(slots))
    assert source.has_previous_seed()


def test_a_master_that_does_not_answer_is_one_sentence(source: Source) -> None:
    source.fill_many()
    code, _, err = source.submit(master="spark://127.0.0.1:1")
    assert code == 47, err
    assert "Spark did not start at spark://127.0.0.1:1: " in err
