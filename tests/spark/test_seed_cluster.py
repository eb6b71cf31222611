from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark
import pytest

from demo.cluster import free_port
from tests.spark.support import Source, wait_until

HOME = Path(pyspark.__file__).parent


@contextmanager
def daemon(name: str, log: Path, *arguments: str) -> Iterator[None]:
    """Run one of Spark's daemons in the foreground, without the libpq settings of the driver."""
    environment = {
        **os.environ,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_NO_DAEMONIZE": "1",
        "SPARK_DAEMON_MEMORY": "256m",
        "PYSPARK_PYTHON": sys.executable,
    }
    with log.open("w") as out:
        process = subprocess.Popen(
            [str(HOME / "bin/spark-class"), f"org.apache.spark.deploy.{name}", *arguments],
            env=environment,
            cwd=log.parent,
            stdout=out,
            stderr=out,
        )
        try:
            yield
        finally:
            process.terminate()
            process.wait(timeout=60)


@pytest.fixture
def master(tmp_path: Path) -> Iterator[str]:
    port, first, second = (str(free_port()) for _ in range(3))
    url = f"spark://127.0.0.1:{port}"
    log = tmp_path / "worker.log"
    address = ("--host", "127.0.0.1", "--port", port, "--webui-port", first)
    with daemon("master.Master", tmp_path / "master.log", *address):
        limits = ("--cores", "1", "--memory", "1g", "--work-dir", str(tmp_path))
        with daemon("worker.Worker", log, *limits, "--webui-port", second, url):
            wait_until(lambda: re.search("Successfully registered with master", log.read_text()))
            yield url


@pytest.mark.slow
def test_a_standalone_cluster_counts_the_same(source: Source, master: str, tmp_path: Path) -> None:
    source.fill()
    passwords = tmp_path / "passwords"
    passwords.write_text(f"127.0.0.1:{source.cluster.port}:*:keeper:secret of the keeper\n")
    passwords.chmod(0o600)
    hba = source.cluster.data / "pg_hba.conf"
    before = hba.read_text()
    with source.connect() as connection:
        connection.execute("create role keeper login superuser password 'secret of the keeper'")
        hba.write_text("host all keeper 127.0.0.1/32 scram-sha-256\n" + before)
        connection.execute("select pg_reload_conf()")
        try:
            # The executors have neither the variables nor the password file.
            code, out, err = source.submit(
                master=master,
                PGUSER="keeper",
                PGPASSFILE=str(passwords),
                SPARK_LOCAL_IP="127.0.0.1",
            )
        finally:
            hba.write_text(before)
            connection.execute("select pg_reload_conf()")
    assert code == 0, err
    assert source.baseline() == source.recount()
    written = out + err + "".join(log.read_text() for log in tmp_path.rglob("*.log"))
    written += "".join(log.read_text() for log in tmp_path.rglob("stderr"))
    assert "secret" not in written
    assert list(tmp_path.rglob("stderr")), "no executor ran"
