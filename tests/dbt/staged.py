"""The target database as a test sees it: its change log, its baseline, and builds on it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import psycopg2
import pytest
from dbt.cli.main import dbtRunnerResult
from psycopg2.extras import execute_values

from loader.applying import calls
from loader.applying.calls import ModelState
from loader.capture.wal2json import action
from loader.staging.migrate import upgrade
from testkit.commands import ROOT, wait_until
from testkit.servers import Cluster, Server, connect
from tests.dbt.project import Project, messages
from tests.dbt.workload import Group
from waltally import facts, lsn
from waltally.database import Connection

SLOT = "waltally"
DATABASE = "waltally"
START = 0x1000
STEP = 0x30
"""How far one source transaction moves the position."""

FACT = ("--select", "ft_service_stats", "rejected_changes")
SHIPPED = ("--exclude", "path:examples")
"""The project's own models, without the examples of tests/dbt."""


@contextmanager
def warehouse_cluster(settings: Mapping[str, str] | None = None) -> Iterator[Cluster]:
    """A server whose database `postgres` is the template of every warehouse."""
    with Server({"fsync": "off", **(settings or {})}) as cluster:
        connection = connect(cluster.dsn())
        upgrade(connection, "cdc")
        with connection, connection.cursor() as cursor:
            cursor.execute(
                "set search_path = cdc; create table change_log_all partition of change_log "
                "for values from ('0/0') to ('FFFFFFFF/FFFFFFFF')"
            )
            cursor.execute("set search_path = public")
            cursor.execute((ROOT / "testkit/notify.sql").read_text())
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
        self._applying = self.connect()
        self._installed: dict[tuple[str, ...], set[str]] = {}
        self._settings: tuple[str, ...] = ()
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
                "insert into cdc.fact (slot_name, fact_name, declaration, needed, relation_schema, "
                "relation_name) values (%s, %s, %s, %s, %s, %s) on conflict (slot_name, fact_name) "
                "do update set declaration = excluded.declaration, needed = excluded.needed",
                slot,
                fact.name,
                json.dumps(fact.declaration),
                json.dumps(fact.needed),
                fact.relation.schema,
                fact.relation.name,
            )
            for table in facts.source_tables([fact]):
                self.execute(
                    "insert into cdc.logged_table (slot_name, table_schema, table_name, "
                    "held_since) values (%s, %s, %s, %s) "
                    "on conflict do nothing",
                    slot,
                    table.schema,
                    table.name,
                    json.dumps({"*": lsn.show(followed)}),
                )

    def connect(self) -> Connection:
        return connect(self.cluster.dsn(DATABASE))

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
            "cdc.archived_delete, analytics.rejected_changes; "
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

    def reconnect(self) -> None:
        """Open other sessions, after the server was stopped."""
        self.connection = self.connect()
        self._applying = self.connect()

    def close(self) -> None:
        self._applying.close()
        self.connection.close()

    def dbt(self, *words: str) -> dbtRunnerResult:
        """Run dbt in this process; it may install something else."""
        self._installed.clear()
        return self.project.invoke(*words)

    def install(self, *words: str) -> None:
        """Have dbt install the models and apply; fail the test where dbt fails."""
        installed = dict(self._installed)
        done = self.dbt("run", *words)
        assert done.success, messages(done)
        self._installed = installed
        self._installed[words] = {
            f"{each.node.schema}.{each.node.name}" for each in getattr(done.result, "results", [])
        }

    def build(self, *words: str) -> None:
        """Bring the models to what is staged; fail the test where one of them failed.

        dbt installs them, where it has not with these words and settings. After that the
        database applies.
        """
        for model in self._bring(*words):
            assert model.state != "failed", f"{model.reason} {model.remedy}"

    def waits(self, *words: str) -> str:
        """Bring the models to what is staged, and return why they wait; one of them must."""
        said = [
            f"{model.reason}; {model.remedy}"
            for model in self._bring(*words)
            if model.state == "waits"
        ]
        assert said
        return " ".join(said)

    def _bring(self, *words: str) -> list[ModelState]:
        """Return the states of the models that the words select."""
        names = ("LOADER_SLOT", "LOADER_SCHEMA", "DBT_SCHEMA", "PGUSER")
        variables = [value for name, value in pairwise(words) if name == "--vars"]
        settings = (*variables, *(os.environ.get(name, "") for name in names))
        if settings != self._settings:
            self._installed.clear()
            self._settings = settings
        if words not in self._installed or "--full-refresh" in words:
            self.install(*words)
        return [model for model in self.apply() if model.name in self._installed[words]]

    def apply(self, part: calls.Part = "all") -> list[ModelState]:
        """Call cdc.apply until nothing is behind, as the loader does."""
        while True:
            models = self.apply_once(part)
            if not any(model.is_behind for model in models):
                return models

    def apply_once(self, part: calls.Part = "all") -> list[ModelState]:
        slot = os.environ.get("LOADER_SLOT", SLOT)
        return calls.apply(self._applying, "cdc", slot, part)

    def watch(self, statement: str) -> list[Any]:
        """Execute a statement in the session that applies."""
        with self._applying, self._applying.cursor() as cursor:
            cursor.execute(statement)
            return list(cursor.fetchall()) if cursor.description else []

    def apply_apart(self, part: calls.Part = "all") -> list[ModelState]:
        """Call cdc.apply once, in a session of its own."""
        # What waits for a lock that this test holds would wait for ever.
        settings = "-c lock_timeout=120s"
        dsn = f"{self.cluster.dsn(DATABASE)} options='{settings}'"
        with closing(connect(dsn)) as connection:
            return calls.apply(connection, "cdc", SLOT, part)

    def states(self) -> dict[str, str]:
        """The state of each model by its fact's name."""
        return dict(
            self.execute("select split_part(model_name, '.', 2), state from cdc.fact_state")
        )

    def slice(self, size: int) -> None:
        """Let each model take so many changes at once."""
        self.execute(
            "create or replace function cdc.slice_size() returns bigint language sql immutable "
            f"as 'select {size}::bigint'"
        )

    def refresh(self, *models: str) -> None:
        """Start these models from their baselines again, as `dbt build --full-refresh` does."""
        self.execute(
            "update cdc.installed_model set is_refresh_asked = true "
            "where fact_name = any (%s) and slot_name = %s",
            list(models),
            os.environ.get("LOADER_SLOT", SLOT),
        )
        self.apply()

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
    def stopping(self, fact: str) -> Iterator[None]:
        """Let whoever writes to a fact wait, longer than for a lock, until the end."""
        self.execute(
            "create or replace function stop() returns trigger language plpgsql set lock_timeout = "
            "0 as 'begin perform pg_advisory_xact_lock(1); return null; end'; create trigger stop "
            f"before insert or delete on analytics.{fact} execute function stop()"
        )
        with self.holding("select pg_advisory_lock(1)"):
            yield
        self.execute(f"drop trigger stop on analytics.{fact}")

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
        """Return once so many sessions wait for a lock; fail where the build is over."""
        is_over = is_over or threading.Event()
        waiting = (
            "select count(*) from pg_stat_activity "
            "where wait_event_type = 'Lock' and datname = current_database()"
        )
        while self.execute(waiting)[0][0] < sessions:
            assert not is_over.wait(0.02), "the build ended without waiting for the lock"

    def wait_for_nobody(self) -> None:
        """Return once no other session is left, as that of a dbt that was killed."""
        others = (
            "select count(*) from pg_stat_activity where datname = current_database() "
            "and backend_type = 'client backend' and pid <> pg_backend_pid() "
            "and application_name = 'dbt'"
        )
        wait_until(lambda: self.execute(others) == [(0,)], "dbt's session is gone")
