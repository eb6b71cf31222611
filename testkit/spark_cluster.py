"""A private standalone Spark cluster in a temporary directory, on free ports of this machine."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import pyspark

from testkit.servers import free_port

_POLL_SECONDS = 0.25
_START_SECONDS = 180


@dataclass(frozen=True)
class Worker:
    """A worker of one core; `home` has what its executors write."""

    process: subprocess.Popen[bytes]
    home: Path

    def executors(self) -> list[psutil.Process]:
        """Return its executors' JVMs; the script that started it may be there as a zombie."""
        children = psutil.Process(self.process.pid).children()
        return [child for child in children if child.name() == "java"]


@dataclass(frozen=True)
class SparkCluster:
    """A master and its workers; `home` has all that they write."""

    url: str
    home: Path
    master: subprocess.Popen[bytes]
    workers: list[Worker]


@contextmanager
def spark_cluster(
    workers: int, of_first: Mapping[str, str] | None = None
) -> Iterator[SparkCluster]:
    """Run a Spark cluster of that many workers of one core each.

    `of_first` are variables of the first worker's executors.
    """
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="waltally-spark-")))
        port = free_port()
        url = f"spark://127.0.0.1:{port}"
        master = _daemon(stack, home / "master", "master.Master", "--port", str(port))
        started = []
        for number in range(workers):
            place = home / f"worker-{number}"
            limits = ("--cores", "1", "--memory", "1g", "--work-dir", str(place))
            more = of_first if number == 0 else None
            process = _daemon(stack, place, "worker.Worker", *limits, url, more=more)
            started.append(Worker(process, place))
        deadline = time.monotonic() + _START_SECONDS
        for worker in started:
            log = worker.home / "log"
            while "Successfully registered" not in log.read_text():
                if time.monotonic() > deadline:
                    raise RuntimeError(f"no Spark cluster:\n{log.read_text()[-2000:]}")
                time.sleep(_POLL_SECONDS)
        yield SparkCluster(url, home, master, started)


def _daemon(
    stack: ExitStack,
    home: Path,
    name: str,
    *arguments: str,
    more: Mapping[str, str] | None = None,
) -> subprocess.Popen[bytes]:
    """Start one of Spark's daemons, which writes into `home` and ends with the stack."""
    home.mkdir()
    process = subprocess.Popen(
        [
            str(Path(pyspark.__file__).parent / "bin/spark-class"),
            f"org.apache.spark.deploy.{name}",
            *("--host", "127.0.0.1", "--webui-port", str(free_port())),
            *arguments,
        ],
        env={
            **os.environ,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_DIRS": str(home),
            "SPARK_DAEMON_MEMORY": "256m",
            **(more or {}),
        },
        cwd=home,
        stdout=stack.enter_context((home / "log").open("w")),
        stderr=subprocess.STDOUT,
    )
    stack.callback(process.wait)
    stack.callback(process.terminate)
    return process
