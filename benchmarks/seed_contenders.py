"""Ways to count the same rows: the seed, Spark over JDBC, psql; and the COPY that all stand on.

Run under spark-submit, this file is the JDBC contender's job. It takes no shared snapshot, so its
count is only right while nothing writes; the seed's is right in any case.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

import psutil
import pyspark

from benchmarks import measure, workload
from demo import source
from demo.cluster import BIN, Cluster, free_port
from demo.replay import DIMENSIONS

SLOT = "notify_dashboard_replication_slot"
JAR = Path("/usr/share/java/postgresql.jar")
"""Debian's libpostgresql-jdbc-java."""
JDBC_COUNTS = "public.jdbc_counts"

_SUBMIT = workload.BIN / "spark-submit"
_SAMPLE_SECONDS = 0.25
_START_SECONDS = 60
_PSS = re.compile(r"^Pss:\s+(\d+) kB", re.M)
_COLUMNS = ", ".join(DIMENSIONS)


@dataclass(frozen=True)
class Outcome:
    """What one run took; `counting` is from the first Spark job's start to the last one's end."""

    seconds: float
    primary: float
    """CPU seconds of the server that is read."""
    counting: float | None = None
    memory: Mapping[str, int] = field(default_factory=dict)
    """Peak bytes of the JVMs, the Python workers and the driver's Python, each kind as a whole."""
    stored: str | None = None
    """The relation in the warehouse that holds the counts, where they are kept."""


class Memory:
    """Samples this process's descendants; forked workers share pages, so each page counts once."""

    def __init__(self) -> None:
        self.peaks: dict[str, int] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Memory:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(_SAMPLE_SECONDS):
            now: dict[str, int] = {}
            for process in psutil.Process().children(recursive=True):
                try:
                    kind = _kind(process)
                    found = _PSS.search(Path(f"/proc/{process.pid}/smaps_rollup").read_text())
                except (OSError, psutil.Error):
                    continue
                if kind and found:
                    now[kind] = now.get(kind, 0) + int(found[1]) * 1024
            for kind, held in now.items():
                self.peaks[kind] = max(self.peaks.get(kind, 0), held)


def _kind(process: psutil.Process) -> str | None:
    name = process.name()
    if name == "java":
        return "JVM"
    if not name.startswith("python"):
        return None
    modules = [word for word in process.cmdline() if word.startswith("pyspark.")]
    return "Python workers" if modules else "driver's Python"


@dataclass(frozen=True)
class Field:
    """The two servers and the export that every contender meets."""

    primary: Cluster
    warehouse: Cluster
    export: Path

    def contenders(self, jdbc: bool = True) -> dict[str, Callable[[], Outcome]]:
        """Return each way to count by its name; the first is the floor for the primary's CPU."""
        found: dict[str, Callable[[], Outcome]] = {
            "COPY of the columns, text": lambda: self.copy("text"),
            "COPY of the columns, binary": lambda: self.copy("binary"),
            "psql, one process": lambda: self.psql(0),
            "psql, parallel": lambda: self.psql(2),
            "seed, database": self.seed,
            "seed, Parquet": lambda: self.parquet(self.export),
        }
        if jdbc:
            found["Spark over JDBC"] = self.jdbc
        return found

    def copy(self, form: str) -> Outcome:
        """Send the four columns of both tables to nowhere."""
        return self._psql(
            f"copy {table} ({_COLUMNS}) to stdout (format {form})" for table in source.TABLES
        )

    def psql(self, workers: int) -> Outcome:
        """Count by GROUP BY, with memory enough for the server's hash table; print to nowhere."""
        counts = " union all ".join(
            f"(select '{table}', {_COLUMNS}, count(*) from {table} group by {_COLUMNS})"
            for table in source.TABLES
        )
        return self._psql(
            (
                f"set max_parallel_workers_per_gather = {workers}",
                "set work_mem = '512MB'",
                f"copy ({counts}) to stdout",
            )
        )

    def _psql(self, statements: Iterable[str]) -> Outcome:
        words = [word for statement in statements for word in ("-c", statement)]
        command = [str(BIN / "psql"), "-X", "-q", "-o", "/dev/null", *words, self.primary.dsn()]
        before = measure.server_cpu(self.primary)
        cost = measure.run(command, {}, {})
        return Outcome(cost.seconds, measure.server_cpu(self.primary) - before)

    def seed(self, master: str = "local[2]", *more: str) -> Outcome:
        """Run the seed on the primary's tables."""
        return self._submit(master, more, "spark/seed.py", ("--json",), "cdc.historical_counts")

    def parquet(self, path: Path, master: str = "local[2]", *more: str) -> Outcome:
        """Run the seed on an export. Nothing writes, so the position of now is the export's."""
        with source.transaction(self.primary.dsn()) as cursor:
            cursor.execute("select pg_current_wal_insert_lsn()::text")
            ((position,),) = cursor.fetchall()
        words = ("--json", "--parquet", str(path), "--snapshot-lsn", str(position))
        return self._submit(master, more, "spark/seed.py", words, "cdc.historical_counts")

    def jdbc(self) -> Outcome:
        """Run Spark's own JDBC reader over the ranges that the seed would read."""
        jar = ("--driver-class-path", str(JAR))
        urls = [
            f"jdbc:postgresql://127.0.0.1:{cluster.port}/postgres?user=postgres"
            for cluster in (self.primary, self.warehouse)
        ]
        words = (*urls, self.primary.dsn())
        return self._submit("local[2]", jar, "benchmarks/seed_contenders.py", words, JDBC_COUNTS)

    def _submit(
        self,
        master: str,
        options: tuple[str, ...],
        script: str,
        words: tuple[str, ...],
        stored: str,
    ) -> Outcome:
        environment = {
            **workload.environment(self.primary, self.warehouse, SLOT),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYTHONPATH": f"{measure.ROOT}:{measure.ROOT / 'spark'}",
        }
        with tempfile.TemporaryDirectory(prefix="waltally-seed-bench-") as folder:
            settings = {
                "spark.eventLog.enabled": "true",
                "spark.eventLog.dir": f"file://{folder}",
                "spark.eventLog.rolling.enabled": "false",
                "spark.eventLog.compress": "false",
                "spark.ui.enabled": "false",
                "spark.log.level": "ERROR",
            }
            conf = [word for pair in settings.items() for word in ("--conf", "=".join(pair))]
            command = [str(_SUBMIT), "--master", master, *conf, *options, script, *words]
            before = measure.server_cpu(self.primary)
            with Memory() as memory:
                cost = measure.run(command, environment, {})
            spent = measure.server_cpu(self.primary) - before
            (log,) = Path(folder).iterdir()
            counting = _counting(log)
        return Outcome(cost.seconds, spent, counting, memory.peaks, stored)


@contextmanager
def standalone(workers: int) -> Iterator[str]:
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
            time.sleep(_SAMPLE_SECONDS)
        yield url


def _counting(log: Path) -> float:
    """Return the seconds from the first job's start to the last one's end, from an event log."""
    times = [
        event[key]
        for event in map(json.loads, log.read_text().splitlines())
        for name, key in (("JobStart", "Submission Time"), ("JobEnd", "Completion Time"))
        if event["Event"] == f"SparkListener{name}"
    ]
    return float(max(times) - min(times)) / 1000


def count_over_jdbc(primary: str, warehouse: str, dsn: str) -> None:
    """Count both tables with Spark's JDBC reader into the warehouse's JDBC_COUNTS."""
    from functools import reduce

    from counting import ranges  # on the path only under spark-submit
    from counting.counts import COLUMNS
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql import functions as sql

    from waltally.tables import Table

    properties = {"driver": "org.postgresql.Driver", "fetchsize": "10000"}
    spark = SparkSession.builder.config("spark.sql.shuffle.partitions", "64").getOrCreate()
    parts = []
    for table in source.TABLES:
        with source.transaction(dsn) as cursor:
            cursor.execute("select pg_relation_size(%s) / 8192", (table,))
            ((pages,),) = cursor.fetchall()
        leaf = ranges.Leaf(Table("public", table), pages)
        conditions = ranges.cut(leaf, ranges.PAGES_PER_RANGE)
        rows = spark.read.jdbc(primary, table, predicates=conditions, properties=properties)
        parts.append(rows.select(sql.lit(f"public.{table}").alias("source_table"), *DIMENSIONS))
    counts = reduce(DataFrame.unionByName, parts).groupBy("source_table", *DIMENSIONS)
    counted = counts.agg(sql.count("*").alias("row_count")).select(*COLUMNS)
    counted.write.jdbc(warehouse, JDBC_COUNTS, mode="overwrite", properties=properties)
    spark.stop()


if __name__ == "__main__":
    count_over_jdbc(*sys.argv[1:])
