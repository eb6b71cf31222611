"""A private server of Spark Connect on a free port: PySpark brings its jar."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from testkit.servers import free_port
from testkit.spark_cluster import await_line, start_spark

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
    conf = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        # However short a job is, its client hears how far it is.
        "spark.connect.progress.reportInterval": "10ms",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
    }
    words = [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]
    local = ("--master", "local[2]", "--driver-memory", "1g")
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    with ExitStack() as stack:
        command = ["spark-submit", "--class", _CLASS, *local, *words, "spark-internal"]
        process = start_spark(stack, home, command, {**kept, "PYSPARK_PYTHON": sys.executable})
        await_line(process, home / "log", "Spark Connect server started")
        yield ConnectServer(f"sc://127.0.0.1:{port}", process)
