"""A standalone Spark cluster on this machine."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark

from demo.cluster import free_port

_POLL_SECONDS = 0.25
_START_SECONDS = 60


@contextmanager
def spark_cluster(workers: int) -> Iterator[str]:
    """Run a Spark cluster of that many workers of one core each; yield its master's URL."""
    home = Path(pyspark.__file__).parent
    port = str(free_port())
    url = f"spark://127.0.0.1:{port}"
    master = ("master.Master", "--host", "127.0.0.1", "--port", port)
    worker = ("worker.Worker", "--cores", "1", "--memory", "1g", url)
    environment = {
        **os.environ,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "PYSPARK_PYTHON": sys.executable,
    }
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="waltally-spark-")))
        logs = [folder / f"{number}.log" for number in range(workers + 1)]
        for words, log in zip((master, *[worker] * workers), logs, strict=True):
            name, *rest = words
            process = subprocess.Popen(
                [
                    str(home / "bin/spark-class"),
                    f"org.apache.spark.deploy.{name}",
                    "--webui-port",
                    str(free_port()),
                    *rest,
                ],
                env={**environment, "SPARK_WORKER_DIR": str(folder)},
                cwd=folder,
                stdout=stack.enter_context(log.open("w")),
                stderr=subprocess.STDOUT,
            )
            stack.callback(process.wait)
            stack.callback(process.terminate)
        deadline = time.monotonic() + _START_SECONDS
        while any("Successfully registered" not in log.read_text() for log in logs[1:]):
            if time.monotonic() > deadline:
                raise RuntimeError(f"no Spark cluster:\n{logs[1].read_text()[-2000:]}")
            time.sleep(_POLL_SECONDS)
        yield url
