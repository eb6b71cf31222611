"""The target database as a test sees it: its change log, its seed, and builds on it."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg2
from dbt.cli.main import dbtRunner, dbtRunnerResult
from psycopg2.extras import execute_values

from demo.cluster import Cluster
from loader.capture.wal2json import action
from tests.dbt.workload import Group, Row

SLOT = "notify_dashboard_replication_slot"
DATABASE = "waltally"


def lsn(number: int) -> str:
    return f"{number >> 32:X}/{number & 0xFFFFFFFF:X}"


class Warehouse:
    """The target database: its change log, its seed, and builds on it."""

    def __init__(self, cluster: Cluster, project: Path) -> None:
        self.cluster = cluster
        self.project = project
        self.staged = 0
        self.position = 0x1000
        self.connection = self.connect()
        self.execute(
            "insert into cdc.slot_position (slot_name, system_identifier, source_database, "
            "start_lsn, position_lsn, registered_tables) values (%s, '1', 'app', %s, %s, "
            """'[["public", "notifications"], ["public", "notification_history"]]')""",
            SLOT,
            lsn(self.position),
            lsn(self.position),
        )

    def connect(self) -> Any:
        connection = psycopg2.connect(self.cluster.dsn(DATABASE))
        connection.autocommit = True
        return connection

    def execute(self, statement: str, *values: object) -> list[Any]:
        with self.connection.cursor() as cursor:
            cursor.execute(statement, values or None)
            return list(cursor.fetchall()) if cursor.description else []

    def append(self, *transactions: Sequence[Row | str]) -> None:
        """Stage whole source transactions and move the position, in one transaction.

        Every third change is printed as the plugin does not, so that it must be parsed.
        """
        rows: list[tuple[object, ...]] = []
        for changes in transactions:
            for ordinal, part in enumerate(changes, 1):
                self.staged += 1
                form = None if self.staged % 3 == 0 else (",", ":")
                payload = part if isinstance(part, str) else json.dumps(part, separators=form)
                letter = action(payload.encode()).decode() or None
                rows.append((SLOT, lsn(self.position), ordinal, letter, payload))
            self.position += 0x30
        self.execute("begin")
        with self.connection.cursor() as cursor:
            execute_values(
                cursor,
                "insert into cdc.change_log (slot_name, commit_lsn, ordinal, xid, committed_at, "
                "action, payload) values %s",
                rows,
                "(%s, %s, %s, 1, now(), %s, %s)",
            )
        self.execute("update cdc.slot_position set position_lsn = %s", lsn(self.position))
        self.execute("commit")

    def seed(self, counts: dict[Group, tuple[int, int]], at: int | None = None) -> None:
        """Replace the historical seed by these live and archived counts, in one transaction."""
        self.execute(
            "begin; delete from cdc.historical_counts; delete from cdc.historical_snapshot"
        )
        self.execute(
            "insert into cdc.historical_snapshot values (%s, %s, %s, '1')",
            SLOT,
            str(uuid.uuid4()),
            lsn(self.position if at is None else at),
        )
        for group, parts in counts.items():
            for table, rows in zip(("notifications", "notification_history"), parts, strict=True):
                if rows:
                    self.execute(
                        "insert into cdc.historical_counts values (%s, %s, %s, %s, %s, %s, %s)",
                        SLOT,
                        f"public.{table}",
                        *group,
                        rows,
                    )
        self.execute("commit")

    def counts(self, connection: Any = None) -> dict[Group, tuple[int, int]]:
        """What the fact holds, by group; groups of nothing left out."""
        with (connection or self.connection).cursor() as cursor:
            cursor.execute(
                "select service_id::text, template_id::text, notification_type, "
                "notification_status, live_count, archived_count "
                "from analytics.ft_service_stats where (live_count, archived_count) <> (0, 0)"
            )
            return {tuple(line[:4]): tuple(line[4:]) for line in cursor}

    def arguments(self, *words: str) -> list[str]:
        return [
            *words,
            "--project-dir",
            str(self.project),
            "--profiles-dir",
            str(self.project),
            "--target-path",
            str(self.project / "target"),
            "--log-path",
            str(self.project / "logs"),
        ]

    def dbt(self, *words: str) -> dbtRunnerResult:
        """Run dbt in this process."""
        # dbt never closes the log file that each invocation opens.
        return dbtRunner().invoke(self.arguments(*words, "--log-level-file", "none"))

    def build(self, *words: str) -> None:
        """Run the incremental models; fail the test where dbt fails."""
        done = self.dbt("run", *words)
        assert done.success, messages(done)

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start dbt as a process of its own."""
        return subprocess.Popen(
            [str(Path(sys.executable).with_name("dbt")), *self.arguments(*words)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    @contextmanager
    def holding(self, statement: str) -> Iterator[None]:
        """Hold the locks that a statement takes, in a session of its own."""
        holder = self.connect()
        try:
            holder.autocommit = False
            holder.cursor().execute(statement)
            yield
        finally:
            holder.close()

    def wait_for_waiting(self, sessions: int) -> None:
        """Return once so many sessions of dbt wait for a lock."""
        self.execute(
            "do $$ begin while (select count(*) from pg_stat_activity where wait_event_type = "
            f"'Lock' and application_name = 'dbt') < {sessions} loop "
            "perform pg_stat_clear_snapshot(); perform pg_sleep(0.02); end loop; end $$"
        )


def messages(done: dbtRunnerResult) -> str:
    """What the nodes of a run, or the run itself, complained about."""
    results = getattr(done.result, "results", [])
    return "\n".join([str(done.exception or ""), *(str(each.message) for each in results)])
