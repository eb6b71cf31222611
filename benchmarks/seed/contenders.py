"""Ways to count the same rows: the seed and psql, and a COPY to compare with."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks import measure, workload
from benchmarks.seed.memory import PeakMemory
from testkit import source
from testkit.servers import BIN, Cluster
from testkit.source import DIMENSIONS

SLOT = "waltally"
_BASELINE = """(
    select
        'public.' || case part when 'live' then 'notifications' else 'notification_history' end
            as source_table,
        dimensions[1] as service_id,
        dimensions[2] as template_id,
        dimensions[3] as notification_type,
        dimensions[4] as notification_status,
        (measures[1] + measures[2])::bigint as row_count
    from cdc.baseline_group
) as counted"""
"""The baseline of ft_service_stats, as count_on_server counts it."""

_SUBMIT = workload.BIN / "spark-submit"
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

    @property
    def peak_mb(self) -> float | None:
        """The peaks of all kinds of processes in MB; None where it is no Spark job."""
        return sum(self.memory.values()) / 1e6 if self.memory else None


@dataclass(frozen=True)
class Contenders:
    """Ways to count the same tables of the same servers."""

    primary: Cluster
    warehouse: Cluster

    def by_name(self) -> dict[str, Callable[[], Outcome]]:
        """Return each way to count by its name; the first is the floor for the primary's CPU."""
        return {
            "COPY of the columns, text": lambda: self.copy("text"),
            "COPY of the columns, binary": lambda: self.copy("binary"),
            "psql, one process": lambda: self.psql(0),
            "psql, parallel": lambda: self.psql(2),
            "seed, database": self.seed,
        }

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

    def seed(self) -> Outcome:
        """Run the seed on the primary's tables."""
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
            command = [str(_SUBMIT), "--master", "local[2]", *conf, "spark/seed.py", "--json"]
            before = measure.server_cpu(self.primary)
            with PeakMemory() as memory:
                cost = measure.run(command, environment, {})
            spent = measure.server_cpu(self.primary) - before
            (log,) = Path(folder).iterdir()
            counting = _counting(log)
        return Outcome(cost.seconds, spent, counting, memory.peaks, _BASELINE)


def _counting(log: Path) -> float:
    """Return the seconds from the first job's start to the last one's end, from an event log."""
    times = [
        event[key]
        for event in map(json.loads, log.read_text().splitlines())
        for name, key in (("JobStart", "Submission Time"), ("JobEnd", "Completion Time"))
        if event["Event"] == f"SparkListener{name}"
    ]
    return float(max(times) - min(times)) / 1000
