"""On a cluster a password shows in no file, command line, log or message."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from waltally_jobs.common import submitted

from testkit.commands import wait_until
from testkit.hostile import SECRET
from testkit.spark_cluster import SparkCluster
from tests.operations.secret_watch import SecretWatch, files_with
from tests.spark.support import Source
from waltally.errors import SettingError


@contextmanager
def wants_a_password(source: Source, passwords: Path) -> Iterator[None]:
    """Let the role `keeper` in only with the password, which is in the file."""
    passwords.write_text(f"127.0.0.1:{source.cluster.port}:*:keeper:{SECRET}\n")
    passwords.chmod(0o600)
    hba = source.cluster.data / "pg_hba.conf"
    before = hba.read_text()
    source.execute(f"create role keeper login superuser password '{SECRET}'")
    hba.write_text("host all keeper 127.0.0.1/32 scram-sha-256\n" + before)
    source.execute("select pg_reload_conf()")
    try:
        yield
    finally:
        hba.write_text(before)
        source.execute("select pg_reload_conf()")


@pytest.mark.slow
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
        "spark.executor.memory": "512m",
        # As with a table of hundreds of gigabytes: what tasks need is sent by way of files.
        "spark.broadcast.UDFCompressionThreshold": "1",
    }
    passwords = tmp_path / "passwords"
    login = {"PGUSER": "keeper", "PGPASSFILE": str(passwords), "SPARK_LOCAL_IP": "127.0.0.1"}
    with wants_a_password(source, passwords), SecretWatch(SECRET, source.dsn, workers.home) as seen:
        # The executors have neither the variables nor the password file.
        code, out, err = source.submit(master=workers.url, conf=conf, environment=login)
    assert code == 0, err
    assert source.baseline() == source.recount()
    assert seen.found == set()
    assert SECRET not in out + err
    assert any(file.stat().st_size for file in workers.home.rglob("app-*/*/stderr"))
    wait_until(lambda: "SparkListenerApplicationEnd" in read_all(events))
    assert "spark.broadcast.UDFCompressionThreshold" in read_all(events)
    assert files_with(workers.home, SECRET) == set()


def read_all(folder: Path) -> str:
    return "".join(file.read_text() for file in folder.rglob("*") if file.is_file())


def test_a_password_in_a_property_is_refused() -> None:
    dsn = f"postgresql://keeper:{SECRET}@db/notify"
    for name, value in (
        ("spark.executorEnv.PGPASSWORD", SECRET),
        ("spark.yarn.appMasterEnv.PGPASSWORD", SECRET),
        ("spark.kubernetes.driverEnv.LOADER_SOURCE_DSN", dsn),
        ("spark.executorEnv.LOADER_TARGET_DSN", f"host=db password={SECRET}"),
    ):
        with pytest.raises(SettingError, match=name) as refused:
            submitted.refuse_passwords([("spark.app.name", "x"), (name, value)])
        assert SECRET not in refused.value.sentence
    without = {
        "spark.executorEnv.PGPASSFILE": "/etc/waltally/passwords",
        "spark.yarn.appMasterEnv.LOADER_SOURCE_DSN": "host=db user=waltally_spark",
        "spark.kubernetes.driver.secretKeyRef.PGPASSWORD": "waltally:password",
    }
    submitted.refuse_passwords(without.items())
