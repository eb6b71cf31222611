"""A private standalone Spark cluster in a temporary directory, on free ports of this machine."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import pyspark

from testkit.servers import free_port
from testkit.spark_java import OPTIONS
from testkit.waiting import wait_until

_START_SECONDS = 180
_FAST = {"SPARK_DAEMON_JAVA_OPTS": OPTIONS, "SPARK_SUBMIT_OPTS": OPTIONS}


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
        _daemon(stack, home / "master", "master.Master", "--port", str(port))
        started = []
        for number in range(workers):
            place = home / f"worker-{number}"
            limits = ("--cores", "1", "--memory", "1g", "--work-dir", str(place))
            more = of_first or {} if number == 0 else {}
            process = _daemon(stack, place, "worker.Worker", *limits, url, **more)
            started.append(Worker(process, place))
        for worker in started:
            await_line(worker.process, worker.home / "log", "Successfully registered")
        yield SparkCluster(url, home, started)


def _daemon(
    stack: ExitStack, home: Path, name: str, *arguments: str, **more: str
) -> subprocess.Popen[bytes]:
    """Start one of Spark's daemons, which writes into `home` and ends with the stack."""
    ui = ("--host", "127.0.0.1", "--webui-port", str(free_port()))
    local = {"SPARK_LOCAL_DIRS": str(home), "SPARK_DAEMON_MEMORY": "256m"}
    home.mkdir()
    command = ["spark-class", f"org.apache.spark.deploy.{name}", *ui, *arguments]
    return start_spark(stack, home, command, {**os.environ, **local, **more})


def start_spark(
    stack: ExitStack, home: Path, command: Sequence[str], environment: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    """Start a program of Spark, which writes into `home` and ends with the stack."""
    program, *arguments = command
    process = subprocess.Popen(
        [str(Path(pyspark.__file__).parent / "bin" / program), *arguments],
        env={**environment, **_FAST, "SPARK_LOCAL_IP": "127.0.0.1"},
        cwd=home,
        stdout=stack.enter_context((home / "log").open("w")),
        stderr=subprocess.STDOUT,
    )
    stack.callback(process.wait)
    stack.callback(process.terminate)
    return process


def await_line(process: subprocess.Popen[bytes], log: Path, words: str) -> None:
    """Wait until the process has written the words."""

    def is_said() -> bool:
        assert process.poll() is None, log.read_text()[-2000:]
        return words in log.read_text()

    wait_until(is_said, words, _START_SECONDS)
