"""On a cluster: a seed that loses a part of it, and a password that shows nowhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from testkit.commands import wait_until
from testkit.hostile import SECRET
from testkit.spark_cluster import SparkCluster, Worker, spark_cluster
from tests.operations.secret_watch import SecretWatch, files_with
from tests.spark.support import Source

SMALL = {"spark.executor.memory": "512m"}

pytestmark = pytest.mark.slow


def kill(worker: Worker) -> None:
    executors = worker.executors()
    worker.process.kill()
    for executor in executors:
        executor.kill()


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
    source.must_end_as_a_recount()


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
    assert seed.returncode == 29, err
    assert "has had no executor for --timeout, and the seed gave up" in err
    assert "Traceback" not in err
    slots = "select 1 from pg_replication_slots where slot_name ~ '^waltally_seed_'"
    wait_until(lambda: not source.execute(slots))
    assert source.has_previous_seed()


def test_a_master_that_does_not_answer_is_one_sentence(source: Source) -> None:
    source.fill_many()
    code, _, err = source.submit(master="spark://127.0.0.1:1")
    assert code == 29, err
    assert "Spark did not start at spark://127.0.0.1:1: " in err


def test_a_password_shows_nowhere_on_a_cluster(
    source: Source, workers: SparkCluster, tmp_path: Path
) -> None:
    """The event log has all that Spark's pages show."""
    source.fill_many()
    events = workers.home / "events"
    events.mkdir()
    conf = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": events.as_uri(),
        "spark.local.dir": str(workers.home),
        **SMALL,
        # As with a table of hundreds of gigabytes: what tasks need is sent by way of files.
        "spark.broadcast.UDFCompressionThreshold": "1",
    }
    hba, passwords = source.cluster.data / "pg_hba.conf", tmp_path / "passwords"
    hba.write_text("host all keeper 127.0.0.1/32 scram-sha-256\n" + hba.read_text())
    source.execute(f"create role keeper login superuser password '{SECRET}'")
    source.execute("select pg_reload_conf()")
    passwords.write_text(f"127.0.0.1:{source.cluster.port}:*:keeper:{SECRET}\n")
    passwords.chmod(0o600)
    login = {"PGUSER": "keeper", "PGPASSFILE": str(passwords), "SPARK_LOCAL_IP": "127.0.0.1"}
    with SecretWatch(SECRET, source.dsn, workers.home) as seen:
        # The executors have neither the variables nor the password file.
        four = ("--partitions", "4")
        code, out, err = source.submit(*four, master=workers.url, conf=conf, environment=login)
    assert code == 0, err
    source.must_end_as_a_recount()
    assert seen.found == set()
    assert SECRET not in out + err
    assert any(file.stat().st_size for file in workers.home.rglob("app-*/*/stderr"))

    def read_all() -> str:
        return "".join(file.read_text() for file in events.rglob("*") if file.is_file())

    wait_until(lambda: "SparkListenerApplicationEnd" in read_all())
    assert "spark.broadcast.UDFCompressionThreshold" in read_all()
    # Each range was a task, under the name of what it read.
    assert read_all().count('"Event":"SparkListenerTaskEnd"') >= 4
    assert '"spark.job.description":"reading public.notification_history, ' in read_all()
    assert files_with(workers.home, SECRET) == set()
