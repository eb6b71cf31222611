"""The target database as a test sees it: its change log, its baseline, and builds on it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg2
import pytest
from dbt.cli.main import dbtRunnerResult
from psycopg2.extras import execute_values

from demo.cluster import Cluster
from loader.capture.wal2json import action
from loader.staging.migrate import upgrade
from tests.dbt.project import Project, messages
from tests.dbt.workload import Group
from tests.support import ROOT
from tests.support.servers import Server
from waltally import facts, lsn

SLOT = "notify_dashboard_replication_slot"
DATABASE = "waltally"
START = 0x1000
STEP = 0x30
"""How far one source transaction moves the position."""

FACT = ("--select", "ft_service_stats")
SHIPPED = ("--exclude", "path:examples")
"""The project's own models, without the examples of tests/dbt."""


@contextmanager
def warehouse_cluster() -> Iterator[Cluster]:
    """A server whose database `postgres` is the template of every warehouse."""
    with Server({"fsync": "off"}) as cluster:
        connection = psycopg2.connect(cluster.dsn())
        upgrade(connection, "cdc")
        with connection, connection.cursor() as cursor:
            cursor.execute(
                "set search_path = cdc; create table change_log_all partition of change_log "
                "for values from ('0/0') to ('FFFFFFFF/FFFFFFFF')"
            )
            cursor.execute("set search_path = public")
            cursor.execute((ROOT / "demo/notify.sql").read_text())
        connection.close()
        yield cluster


def set_environment(cluster: Cluster, patch: pytest.MonkeyPatch) -> None:
    """Name the warehouse by libpq's variables, as dbt's profile expects it."""
    for name in [name for name in os.environ if name.startswith(("PG", "LOADER_", "DBT_"))]:
        patch.delenv(name)
    for name, value in cluster.environment(DATABASE).items():
        patch.setenv(name, value)


class Warehouse:
    """A new database; its name stays, as another one would make dbt parse everything again."""

    def __init__(self, cluster: Cluster, project: Project) -> None:
        self.cluster = cluster
        self.project = project
        self.staged = 0
        self.position = START
        server = psycopg2.connect(cluster.dsn("template1"))
        server.autocommit = True
        with server.cursor() as cursor:
            cursor.execute(f"drop database if exists {DATABASE} with (force)")
            cursor.execute(f"create database {DATABASE} template postgres")
        server.close()
        self.connection = self.connect()
        self.add_slot(SLOT)
        self.register(*project.facts())

    def add_slot(self, slot: str) -> None:
        """Make a slot whose log begins at the position, as `loader setup` does."""
        self.execute(
            "insert into cdc.slot_position (slot_name, system_identifier, source_database, "
            "start_lsn, position_lsn) values (%s, '1', 'app', %s, %s)",
            slot,
            lsn.show(self.position),
            lsn.show(self.position),
        )

    def register(self, *found: facts.Fact, slot: str = SLOT, followed: int = START) -> None:
        """Register facts, and let the log hold their tables from a position on."""
        for fact in found:
            self.execute(
                "insert into cdc.fact (slot_name, fact_name, declaration, relation_schema, "
                "relation_name) values (%s, %s, %s, %s, %s) on conflict (slot_name, fact_name) "
                "do update set declaration = excluded.declaration",
                slot,
                fact.name,
                json.dumps(fact.declaration),
                fact.relation.schema,
                fact.relation.name,
            )
            tables = {str(part.table): {"*": lsn.show(followed)} for part in fact.tables}
            self.execute(
                "update cdc.slot_position set followed = %s::jsonb || followed "
                "where slot_name = %s",
                json.dumps(tables),
                slot,
            )

    def connect(self) -> Any:
        connection = psycopg2.connect(self.cluster.dsn(DATABASE))
        connection.autocommit = True
        return connection

    def execute(self, statement: str, *values: object) -> list[Any]:
        with self.connection.cursor() as cursor:
            cursor.execute(statement, values or None)
            return list(cursor.fetchall()) if cursor.description else []

    def append(self, *transactions: Sequence[Mapping[str, Any] | str], slot: str = SLOT) -> None:
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
                rows.append((slot, lsn.show(self.position), ordinal, letter, payload))
            self.position += STEP
        self.execute("begin")
        with self.connection.cursor() as cursor:
            execute_values(
                cursor,
                "insert into cdc.change_log (slot_name, commit_lsn, ordinal, xid, committed_at, "
                "action, payload) values %s",
                rows,
                "(%s, %s, %s, 1, now(), %s, %s)",
            )
        self.execute(
            "update cdc.slot_position set position_lsn = %s where slot_name = %s",
            lsn.show(self.position),
            slot,
        )
        self.execute("commit")

    def seed(self, counts: dict[Group, tuple[int, int]], at: int | None = None) -> None:
        """Replace the baseline of ft_service_stats by these live and archived counts."""
        groups = {
            part: {
                group: [counted if place == each else 0 for place in (0, 1)]
                for group, both in counts.items()
                if (counted := both[each])
            }
            for each, part in enumerate(("live", "archived"))
        }
        self.seed_fact("ft_service_stats", groups, at)

    def seed_fact(
        self,
        fact: str,
        groups: Mapping[str, Mapping[Any, Sequence[object]]],
        at: int | None = None,
        slot: str = SLOT,
    ) -> None:
        """Replace a fact's baseline: by part and group what it adds, in one transaction."""
        self.execute(
            "begin; delete from cdc.baseline_group where (slot_name, fact_name) = (%s, %s)",
            slot,
            fact,
        )
        self.execute(
            "insert into cdc.baseline (slot_name, fact_name, baseline_id, declaration, "
            "snapshot_lsn, system_identifier) select slot_name, fact_name, %s, declaration, %s, "
            "'1' from cdc.fact where (slot_name, fact_name) = (%s, %s) "
            "on conflict (slot_name, fact_name) do update set baseline_id = excluded.baseline_id, "
            "declaration = excluded.declaration, snapshot_lsn = excluded.snapshot_lsn",
            str(uuid.uuid4()),
            lsn.show(self.position if at is None else at),
            slot,
            fact,
        )
        for part, measured in groups.items():
            for dimensions, measures in measured.items():
                self.execute(
                    "insert into cdc.baseline_group values (%s, %s, %s, %s, %s::numeric[])",
                    slot,
                    fact,
                    part,
                    list(dimensions),
                    list(measures),
                )
        self.execute("commit")

    def empty(self) -> None:
        """Forget every change and every count, for the next history on the same tables."""
        self.position = START
        for fact in self.project.facts():
            if self.execute("select to_regclass(%s)", str(fact.relation)) != [(None,)]:
                self.execute(f"truncate {fact.relation}")
        self.execute(
            "truncate cdc.change_log, cdc.model_watermark, cdc.baseline, cdc.baseline_group, "
            "analytics.rejected_changes; "
            "update cdc.slot_position set (start_lsn, position_lsn) = (%s::pg_lsn, %s::pg_lsn)",
            lsn.show(START),
            lsn.show(START),
        )

    def counts(self, connection: Any = None) -> dict[Group, tuple[int, int]]:
        """What the fact holds, by group; groups of nothing left out."""
        with (connection or self.connection).cursor() as cursor:
            cursor.execute(
                "select service_id::text, template_id::text, notification_type, "
                "notification_status, live_count, archived_count "
                "from analytics.ft_service_stats where (live_count, archived_count) <> (0, 0)"
            )
            return {tuple(line[:4]): tuple(line[4:]) for line in cursor}

    def dbt(self, *words: str) -> dbtRunnerResult:
        """Run dbt in this process."""
        return self.project.invoke(*words)

    def build(self, *words: str) -> None:
        """Run the models; fail the test where dbt fails."""
        done = self.dbt("run", *words)
        assert done.success, messages(done)

    def waits(self, *words: str) -> str:
        """Run a model that waits, and return why; fail the test where it does not wait."""
        done = self.dbt("run", *words)
        assert done.success, messages(done)
        said = messages(done)
        assert "WAITS: " in said, said
        return said

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start dbt as a process of its own, for a test that kills it or starts two."""
        return subprocess.Popen(
            [str(Path(sys.executable).with_name("dbt")), *self.project.arguments(*words)],
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

    @contextmanager
    def interrupting(self, lock: str, meanwhile: Callable[[], object]) -> Iterator[None]:
        """Stop the build inside at a lock, do something there, and let the build go on."""
        is_held, is_over = threading.Event(), threading.Event()
        failures: list[BaseException] = []

        def interrupt() -> None:
            try:
                with self.holding(lock):
                    is_held.set()
                    self.wait_for_waiting(1, is_over)
                    meanwhile()
            except BaseException as error:
                failures.append(error)
            finally:
                is_held.set()

        thread = threading.Thread(target=interrupt)
        thread.start()
        is_held.wait()
        try:
            yield
        finally:
            is_over.set()
            thread.join()
        if failures:
            raise failures[0]

    def wait_for_waiting(self, sessions: int, is_over: threading.Event | None = None) -> None:
        """Return once so many sessions of dbt wait for a lock; fail where the build is over."""
        is_over = is_over or threading.Event()
        waiting = (
            "select count(*) from pg_stat_activity "
            "where wait_event_type = 'Lock' and application_name = 'dbt'"
        )
        while self.execute(waiting)[0][0] < sessions:
            assert not is_over.wait(0.02), "the build ended without waiting for the lock"
