"""A private server of Spark Connect on a free port: PySpark brings its jar."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyspark

from testkit.commands import ROOT, wait_until
from testkit.servers import free_port

_START_SECONDS = 180
_CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"


@dataclass(frozen=True)
class ConnectServer:
    """A server, which runs the tasks in its own process and in Pythons of it."""

    address: str
    process: subprocess.Popen[bytes]


@contextmanager
def connect_server() -> Iterator[ConnectServer]:
    """Run a server with two cores, which has nothing of the project."""
    home, port = Path(tempfile.mkdtemp(prefix="waltally-connect-")), free_port()
    binding = {"address": "127.0.0.1", "port": str(port)}
    conf = {f"spark.connect.grpc.binding.{name}": value for name, value in binding.items()}
    conf |= {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2"}
    words = [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    log = home / "log"
    with log.open("w") as out:
        process = subprocess.Popen(
            [
                *(str(Path(pyspark.__file__).parent / "bin/spark-submit"), "--class", _CLASS),
                *("--master", "local[2]", "--driver-memory", "1g", *words, "spark-internal"),
            ],
            cwd=home,
            env={**kept, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
            stdout=out,
            stderr=out,
        )
        try:
            wait_until(
                lambda: (
                    "Spark Connect server started" in log.read_text() or process.poll() is not None
                ),
                "Spark Connect starts",
                _START_SECONDS,
            )
            assert process.poll() is None, log.read_text()[-2000:]
            yield ConnectServer(f"sc://127.0.0.1:{port}", process)
        finally:
            process.terminate()
            process.wait()


def run_remotely(
    address: str, job: str, *flags: str, environment: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run a job over Spark Connect, in a process that has no JVM."""
    return subprocess.run(
        [sys.executable, str(ROOT / f"spark/{job}.py"), *flags],
        env={**os.environ, **environment, "SPARK_REMOTE": address},
        capture_output=True,
        text=True,
        timeout=280,
    )
