from __future__ import annotations

import importlib
import io
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pytest

from testkit import facts
from testkit.commands import wait_until
from testkit.servers import Cluster

ROOT = Path(__file__).parents[2]
TABLES = ("public.notifications", "public.notification_history")
FAST_START = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData"
    f" -Djava.io.tmpdir={tempfile.gettempdir()}"
)
"""Also what ops/spark-submit sets, for sessions of this process: Java has no other TMPDIR."""
IN_PROCESS = {
    # Else PySpark sends rows through sockets that it never closes.
    "spark.io.encryption.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",
    # A third of the time of small jobs goes into the text of their plans, which nobody reads.
    "spark.sql.ui.explainMode": "simple",
    "spark.sql.debug.maxToStringFields": "0",
}
"""What sessions of this process have beside the jobs' own settings."""
if "WALTALLY_ALL_CASES" not in os.environ:
    # To compile a stage takes seconds, and to interpret it for some rows takes none. What
    # spark-submit starts compiles, and so does `make acceptance`.
    IN_PROCESS |= {
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    }

# While a session holds this, every reader stops at the first enum value that it prints. A cast of
# the test's own would not stop it: the stream does not ask casts, so neither does the seed.
GATE = "lock table pg_catalog.pg_enum in access exclusive mode"

AT_THE_GATE = """
    select count(*) from pg_locks
    where relation = 'pg_catalog.pg_enum'::regclass and not granted
        and database = (select oid from pg_database where datname = current_database())
"""

COUNTS = """
    select dimensions, measures[1] + measures[2]
    from cdc.baseline_group
    where slot_name = %s and fact_name = 'ft_service_stats' and part = %s
"""
PARTS = {"public.notifications": "live", "public.notification_history": "archived"}
"""What ft_service_stats calls the tables."""

RECOUNT = """
    select service_id::text, template_id::text, format('%s', notification_type),
        notification_status, count(*)
    from {} where num_nulls(service_id, template_id, notification_type, notification_status) = 0
    group by 1, 2, 3, 4
"""

JOBS = {"seed": "seeding", "audit": "auditing", "archive": "archiving", "replay": "replaying"}
"""By script, the package whose command it runs."""

Counts = dict[str, Counter[tuple[Any, ...]]]


def run_command(
    job: str, flags: Sequence[str], environment: Mapping[str, str]
) -> tuple[int, str, str]:
    """Run a job's command in this process, on the shared Spark session.

    Returns the exit code, the output and the errors, as of a process.
    """
    command = importlib.import_module(f"{JOBS[job]}.cli")
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setattr(sys, "argv", [f"spark/{job}.py", *flags])
        for name, value in environment.items():
            if name.startswith(("PG", "LOADER_", "DBT_")):
                patch.setenv(name, value)
        try:
            command.main()
            code = 0
        except SystemExit as end:
            code = int(end.code or 0)
    return code, out.getvalue(), err.getvalue()


class Clock:
    """A clock that a test can put ahead, so that a timeout ends where the test wants it."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def monotonic(self) -> float:
        return time.monotonic() + self.ahead

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


class Source:
    """A database with the source tables and the staging schema, and what a test does with it."""

    slot = "waltally"

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.cluster = cluster
        self.name = name
        self.dsn = cluster.dsn(name)
        self.environment = {**os.environ, **cluster.environment(name)}
        bin_ = Path(sys.executable).parent
        self.environment["PATH"] = f"{bin_}:{self.environment['PATH']}"
        self._started: list[subprocess.Popen[str]] = []

    def connect(self, autocommit: bool = True, application: str = "") -> psycopg.Connection[Any]:
        return psycopg.connect(self.dsn, autocommit=autocommit, application_name=application)

    def ask(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        with self.connect() as connection:
            return connection.execute(query, values or None).fetchall()

    def fill(self, services: int = 3, templates: int = 4, rows: int = 50) -> None:
        """Rows of every status in both tables, a fifth of them with a null dimension."""
        with self.connect() as connection:
            connection.execute(
                "insert into services (name) select 'x' from generate_series(1, %s)", (services,)
            )
            connection.execute(
                "insert into templates (service_id, template_type, name)"
                " select id, 'sms', 'x' from services, generate_series(1, %s)",
                (templates,),
            )
            for table, columns in (
                ("notifications", '"to"'),
                ("notification_history", "id, created_at"),
            ):
                values = "'x'" if columns == '"to"' else "gen_random_uuid(), now()"
                connection.execute(
                    f"insert into {table} ({columns}, service_id, template_id, notification_type,"
                    f" notification_status) select {values},"
                    " case when i %% 10 <> 0 then service_id end, id,"
                    " (array['email', 'sms', 'letter'])[1 + i %% 3]::notification_type,"
                    " (array['sent', 'delivered', 'failed', 'sending', null])[1 + i %% 5]"
                    " from templates, generate_series(1, %s) as i",
                    (rows,),
                )

    def previous_seed(self) -> None:
        """Store a seed that no count would give, so that its survival can be seen."""
        with self.connect() as connection:
            connection.execute(
                "insert into cdc.baseline_group (slot_name, fact_name, part, dimensions, measures)"
                " select slot_name, fact_name, 'live', array[gen_random_uuid()::text,"
                " gen_random_uuid()::text, 'sms', 'previous'], '{7, 0}' from cdc.fact"
            )
            connection.execute(
                "insert into cdc.baseline (slot_name, fact_name, baseline_id, declaration,"
                " snapshot_lsn, system_identifier) select slot_name, fact_name, gen_random_uuid(),"
                " declaration, start_lsn, system_identifier"
                " from cdc.slot_position inner join cdc.fact using (slot_name)"
            )

    def has_previous_seed(self) -> bool:
        kept = self.ask("select dimensions[4], measures[1] from cdc.baseline_group")
        return kept == [("previous", 7)]

    def register(self, declaration: Mapping[str, Any], name: str) -> None:
        """Register a fact beside ft_service_stats."""
        facts.register(self.dsn, declaration, name, slot=self.slot)

    def groups(self, fact: str) -> dict[tuple[Any, ...], list[Decimal]]:
        """What is stored of a fact: the measures by part and dimensions."""
        found = self.ask(
            "select part, dimensions, measures from cdc.baseline_group where fact_name = %s", fact
        )
        stored = {(part, *dimensions): measures for part, dimensions, measures in found}
        assert len(stored) == len(found), "a group is stored twice"
        return stored

    def start(
        self,
        *flags: str,
        master: str = "local[2]",
        conf: Mapping[str, str] | None = None,
        **more: str,
    ) -> subprocess.Popen[str]:
        command = ["spark-submit", "--master", master, "--driver-java-options", FAST_START]
        for name, value in (conf or {}).items():
            command += ["--conf", f"{name}={value}"]
        process = subprocess.Popen(
            [*command, "spark/seed.py", *flags],
            cwd=ROOT,
            env={**self.environment, **more},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._started.append(process)
        return process

    def seed(self, *flags: str) -> tuple[int, str, str]:
        """Run the seed's command in this process; return exit code, output and errors."""
        return run_command("seed", flags, self.environment)

    def submit(
        self,
        *flags: str,
        master: str = "local[2]",
        conf: Mapping[str, str] | None = None,
        **more: str,
    ) -> tuple[int, str, str]:
        process = self.start(*flags, master=master, conf=conf, **more)
        out, err = process.communicate(timeout=300)
        return process.returncode, out, err

    def close(self) -> None:
        for process in self._started:
            if process.poll() is None:
                process.kill()
            process.communicate()

    def baseline(self) -> Counts:
        return {
            table: Counter(
                {tuple(group): rows for group, rows in self.ask(COUNTS, self.slot, PARTS[table])}
            )
            for table in TABLES
        }

    def recount(self) -> Counts:
        return {
            table: Counter(
                {
                    row[:4]: row[4]
                    for row in self.ask(
                        RECOUNT.format(table),
                    )
                }
            )
            for table in TABLES
        }

    def incoming_tables(self) -> list[tuple[Any, ...]]:
        return self.ask("select 1 from pg_class where relname ~ '^baseline_group_incoming'")

    def waiting(self, kind: str) -> int:
        """How many sessions of this database wait for a lock of this kind."""
        return int(
            self.ask(
                "select count(*) from pg_stat_activity where wait_event_type = 'Lock'"
                " and wait_event = %s and datname = current_database()",
                kind,
            )[0][0]
        )

    @contextmanager
    def seed_at_a_closed_gate(self, *flags: str, **more: Any) -> Any:
        """Start a seed and yield it once its two readers wait for the gate to open.

        The gate's lock is a transaction that writes, which the snapshot would wait for, so it is
        closed only when that is there; Spark takes seconds to start the readers.
        """
        seed = self.start(*flags, **more)
        made = (
            "select 1 from pg_replication_slots where slot_name ~ '^waltally_seed_'"
            " and database = current_database() and confirmed_flush_lsn is not null"
        )
        wait_until(lambda: self.ask(made))
        with self.connect() as gate, gate.transaction():
            gate.execute(GATE)
            wait_until(lambda: self.ask(AT_THE_GATE) == [(2,)])
            yield seed
