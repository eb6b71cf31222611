"""A target database without a source: its change log is written by the test, and applied here."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import cache
from multiprocessing import get_context
from multiprocessing.context import ForkProcess
from typing import Any, TypeVar

import psycopg2
import pytest
from dbt.cli.main import dbtRunnerResult
from psycopg2.extras import execute_values

from loader.capture.wal2json import action
from loader.staging import target_state
from loader.staging.migrate import upgrade
from loader.staging.records import ModelState
from loader.staging.target_state import Part
from testkit.commands import wait_until
from testkit.model import register_declared
from testkit.servers import APPLICATION, Cluster, administer, connect, connect_target
from tests.dbt.project import Project, messages
from tests.dbt.workload import ARCHIVE, LIVE, Group
from waltally import lsn
from waltally.database import Connection
from waltally.settings import Settings

SLOT = "waltally"
DATABASE = "waltally"
START = 0xFFF_FF00
"""The seventh position has a digit more: as a text it would sort before the others."""
STEP = 0x30
"""How far one source transaction moves the position."""

MODEL = "ft_service_stats"
SHIPPED = ("--exclude", "path:examples")
"""For dbt: the project's own models, without the examples of tests/dbt."""

STAGING, INSTALLED = "waltally_staging", "waltally_installed"
"""Databases that warehouses are copied from: with the change log, and with all models too."""

Returned = TypeVar("Returned")

# What dbt has registered is kept aside, so that a test says which models are installed.
_KEEP = """
create schema kept;
create table kept.model as select * from cdc.installed_model;
truncate cdc.installed_model, cdc.batch_reader, cdc.model_watermark
"""
_EMPTY_BASELINES = """
insert into cdc.baseline (
    slot_name, declared_name, baseline_id, declaration, snapshot_lsn, system_identifier
)
select slot_name, declared_name, gen_random_uuid(), declaration, start_lsn, system_identifier
from cdc.registered_model inner join cdc.slot_position using (slot_name)
where slot_name = %s
on conflict do nothing
"""
_INSTALL = """
select cdc.install_model(
    %(slot)s, model_name, declared_name, declaration, routine, needs,
    %(is_refresh)s or not declared_name = any (%(before)s), engine,
    array(select name from cdc.installed_function as own where own.model_name = model.model_name)
)
from kept.model as model where %(models)s = '{}' or declared_name = any (%(models)s)
"""


@cache
def make_templates(cluster: Cluster, project: Project) -> None:
    """Make the databases that warehouses are copied from, once for each server."""
    administer(cluster, f"create database {STAGING} template {APPLICATION}")
    with closing(connect_target(cluster.dsn(STAGING))) as target:
        upgrade(target)
        target.cursor().execute(
            "create table cdc.change_log_all partition of cdc.change_log "
            "for values from ('0/0') to ('FFFFFFFF/FFFFFFFF')"
        )
    installed = Warehouse(cluster, project, STAGING)
    installed.must("run")
    installed.execute(_KEEP)
    installed.close()
    administer(cluster, f"alter database {DATABASE} rename to {INSTALLED}")


def set_environment(cluster: Cluster, patch: pytest.MonkeyPatch) -> None:
    """Name the warehouse by libpq's variables, as dbt's profile expects it."""
    for name in [name for name in os.environ if name.startswith(("PG", "LOADER_", "DBT_"))]:
        patch.delenv(name)
    for name, value in cluster.environment(DATABASE).items():
        patch.setenv(name, value)


class Warehouse:
    """A new database; its name stays, as another one would make dbt parse everything again."""

    def __init__(self, cluster: Cluster, project: Project, template: str = INSTALLED) -> None:
        self.cluster = cluster
        self.project = project
        self.slot = SLOT
        """The slot that is installed for and applied."""
        self.position = START
        if template == INSTALLED:
            make_templates(cluster, project)
        administer(
            cluster,
            f"drop database if exists {DATABASE} with (force)",
            f"create database {DATABASE} template {template}",
        )
        self._staged = 0
        self._installed: set[str] = set()
        self.connection = self.connect()
        self._applying = connect_target(self.cluster.dsn(DATABASE))
        if template == STAGING:
            self.add_slot(SLOT)
            self.register()

    def close(self) -> None:
        self._applying.close()
        self.connection.close()

    def connect(self) -> Connection:
        return connect(self.cluster.dsn(DATABASE))

    @property
    def settings(self) -> Settings:
        """Those of a loader on it."""
        dsn = self.cluster.dsn(DATABASE)
        return Settings.of(dsn, dsn, self.slot, "cdc")

    def execute(self, statement: str, *values: object) -> list[Any]:
        with self.connection.cursor() as cursor:
            cursor.execute(statement, values or None)
            return list(cursor.fetchall()) if cursor.description else []

    def value(self, statement: str, *values: object) -> Any:
        ((only,),) = self.execute(statement, *values)
        return only

    # The change log and the baselines, as loader and Spark write them.

    def add_slot(self, slot: str) -> None:
        """Make a slot whose log begins at the position, as `loader setup` does."""
        self.execute(
            "insert into cdc.slot_position (slot_name, system_identifier, source_database, "
            "start_lsn, position_lsn) values (%s, '1', 'app', %s, %s)",
            slot,
            lsn.show(self.position),
            lsn.show(self.position),
        )

    def register(self, *names: str, slot: str = SLOT) -> None:
        """Register models, all without names, whose tables the log holds from the beginning.

        Each that has no baseline gets one of no rows, at the log's start.
        """
        declared = self.project.declared()
        if names:
            queries = tuple(query for query in declared.queries if query.name in names)
            declared = replace(declared, queries=queries)
        register_declared(self.cluster.dsn(DATABASE), declared, slot)
        self.execute(
            "update cdc.logged_table set held_since = %s "
            "where slot_name = %s and held_since = '{}'",
            json.dumps({"*": lsn.show(START)}),
            slot,
        )
        self.execute(_EMPTY_BASELINES, slot)

    def append(self, *transactions: Sequence[Mapping[str, Any] | str]) -> None:
        """Stage whole source transactions and move the position, in one transaction.

        Every third change is printed as the plugin does not, so that it must be parsed.
        """
        rows: list[tuple[object, ...]] = []
        for changes in transactions:
            for ordinal, part in enumerate(changes, 1):
                self._staged += 1
                form = None if self._staged % 3 == 0 else (",", ":")
                payload = part if isinstance(part, str) else json.dumps(part, separators=form)
                letter = action(payload.encode()).decode() or None
                at = lsn.show(self.position)
                rows.append((self.slot, at, ordinal, letter, payload))
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
            "update cdc.slot_position set position_lsn = %s where slot_name = %s; commit",
            lsn.show(self.position),
            self.slot,
        )

    def seed(self, counts: Mapping[Group, tuple[int, int]], at: int | None = None) -> None:
        """Replace the baseline of ft_service_stats by these live and archived counts."""
        live = {group: [count, count, 0] for group, (count, _) in counts.items() if count}
        archived = {group: [count, 0, count] for group, (_, count) in counts.items() if count}
        self.seed_model(MODEL, {LIVE: live, ARCHIVE: archived}, at)

    def seed_model(
        self,
        model: str,
        groups: Mapping[str, Mapping[Any, Sequence[object]]],
        at: int | None = None,
    ) -> None:
        """Replace a model's baseline: by part and group what it adds, in one transaction."""
        of_model = (self.slot, model)
        rows = [
            (*of_model, part, list(dimensions), list(measures))
            for part, measured in groups.items()
            for dimensions, measures in measured.items()
        ]
        self.execute(
            "begin; delete from cdc.baseline_group where (slot_name, declared_name) = (%s, %s)",
            *of_model,
        )
        self.execute(
            "insert into cdc.baseline (slot_name, declared_name, baseline_id, declaration, "
            "snapshot_lsn, system_identifier) select slot_name, declared_name, gen_random_uuid(), "
            "declaration, %s, '1' from cdc.registered_model "
            "where (slot_name, declared_name) = (%s, %s) on conflict (slot_name, declared_name) do "
            "update set (baseline_id, declaration, snapshot_lsn) = "
            "(excluded.baseline_id, excluded.declaration, excluded.snapshot_lsn)",
            *(lsn.show(self.position if at is None else at), *of_model),
        )
        with self.connection.cursor() as cursor:
            form = "(%s, %s, %s, %s, %s::numeric[])"
            execute_values(cursor, "insert into cdc.baseline_group values %s", rows, form)
        self.execute("commit")

    def prune(self) -> None:
        """Let the log begin where it ends now, as a prune leaves it."""
        self.execute(
            "update cdc.slot_position set start_lsn = position_lsn; delete from cdc.change_log"
        )

    # Installing and applying.

    def dbt(self, *words: str) -> dbtRunnerResult:
        """Run dbt in this process."""
        return self.project.invoke(*words)

    def must(self, *words: str) -> dbtRunnerResult:
        """Run dbt; fail the test where it fails."""
        done = self.dbt(*words)
        assert done.success, messages(done)
        return done

    def must_fail(self, *words: str) -> str:
        """Run dbt, which must fail, and return what it says."""
        done = self.dbt(*words)
        assert not done.success
        return messages(done)

    def install(self, *names: str, refresh: bool = False) -> None:
        """Register models as dbt does at the end of an install; without names, all of them."""
        values = {
            "slot": self.slot,
            "is_refresh": refresh,
            "models": list(names),
            "before": sorted(self._installed),
        }
        with self.connection.cursor() as cursor:
            cursor.execute(_INSTALL, values)
        self._installed |= set(names) or {
            name for (name,) in self.execute("select declared_name from kept.model")
        }

    def bring(self, *names: str, refresh: bool = False) -> list[ModelState]:
        """Install, apply all that is staged, and return the models' states."""
        self.install(*names, refresh=refresh)
        chosen = {f"analytics.{name}" for name in names}
        return [model for model in self.apply() if not names or model.relation in chosen]

    def build(self, *names: str, refresh: bool = False) -> None:
        """Bring the models to what is staged; fail the test where one of them failed."""
        for model in self.bring(*names, refresh=refresh):
            assert model.state != "failed", f"{model.reason} {model.remedy}"

    def refused(self, name: str, refresh: bool = False) -> str:
        """Bring a model, which must fail, and return what it says to do."""
        try:
            (model,) = self.bring(name, refresh=refresh)
        except psycopg2.Error as error:  # as dbt prints it
            return str(error)
        assert model.state == "failed", model
        return f"{model.reason}\nHINT: {model.remedy}"

    def apply(self, part: Part = "all") -> list[ModelState]:
        """Call cdc.apply until nothing is behind, as the loader does."""
        while True:
            models = self.apply_once(part)
            if not any(model.is_behind for model in models):
                return models

    def apply_once(self, part: Part = "all") -> list[ModelState]:
        self._applying.slot = self.slot
        return target_state.apply(self._applying, part)

    def apply_apart(self, part: Part = "all") -> list[ModelState]:
        """Call cdc.apply once, in a session of its own."""
        # What waits for a lock that this test holds would wait for ever.
        dsn = f"{self.cluster.dsn(DATABASE)} options='-c lock_timeout=120s'"
        with closing(connect_target(dsn, self.slot)) as target:
            return target_state.apply(target, part)

    def ask_refresh(self, *names: str) -> None:
        """Let these models start from their baselines at the next apply."""
        self.execute(
            "update cdc.installed_model set is_refresh_asked = true "
            "where declared_name = any (%s) and slot_name = %s",
            list(names),
            self.slot,
        )

    def try_again(self) -> None:
        """Let the pause of each model that failed be over."""
        self.execute("update cdc.installed_model set retry_at = now() where error is not null")

    def batch_of(self, size: int) -> None:
        """Let each model take so many changes at once."""
        self.execute(
            "create or replace function cdc.batch_size() returns bigint language sql immutable "
            f"as 'select {size}::bigint'"
        )

    # What came of it.

    def routine(self, name: str) -> str:
        """Return the function that applies a model, as SQL writes it with its arguments."""
        routine = "select routine from cdc.installed_model where declared_name = %s"
        return str(self.value(routine, name))

    def counts(self, connection: Connection | None = None) -> dict[Group, tuple[int, int]]:
        """What ft_service_stats holds, by group; groups of nothing left out."""
        with (connection or self.connection).cursor() as cursor:
            cursor.execute(
                "select service_id::text, template_id::text, notification_type, "
                "notification_status, live_count, archived_count "
                "from analytics.ft_service_stats where (live_count, archived_count) <> (0, 0)"
            )
            return {tuple(line[:4]): tuple(line[4:]) for line in cursor}

    def states(self) -> dict[str, str]:
        """The state of each model by its model's name."""
        return dict(self.execute("select model_name, state from cdc.model_state"))

    # Others, who get into the way.

    def start_dbt(self, *words: str) -> ForkProcess:
        """Run dbt in a fork of this process, for a test that kills it or has two of them."""
        started = get_context("fork").Process(target=self.must, args=words)
        with warnings.catch_warnings():
            # Of threads that no lock of dbt knows of: those of pytest-xdist.
            warnings.simplefilter("ignore", DeprecationWarning)
            started.start()
        return started

    @contextmanager
    def holding(self, statement: str) -> Iterator[Connection]:
        """Hold the locks that a statement takes, in a session of its own."""
        with closing(self.connect()) as holder:
            holder.autocommit = False
            holder.cursor().execute(statement)
            yield holder

    @contextmanager
    def waiting(
        self, lock: str, call: Callable[..., Returned], *given: object
    ) -> Iterator[Future[Returned]]:
        """Let a call wait in a thread for what a statement locks; after the block it goes on."""
        with ThreadPoolExecutor(1) as pool:
            with self.holding(lock):
                called = pool.submit(call, *given)
                self.wait_for_waiting(1, called)
                yield called
            called.result()

    def stop(self, model: str) -> str:
        """Return a lock for which whoever writes to a model waits, longer than for other locks."""
        self.execute(
            "create or replace function stop() returns trigger language plpgsql set lock_timeout = "
            "0 as 'begin perform pg_advisory_xact_lock(1); return null; end'; create trigger stop "
            f"before insert or delete on analytics.{model} execute function stop()"
        )
        return "select pg_advisory_lock(1)"

    @contextmanager
    def late(self, *models: str) -> Iterator[None]:
        """Hold these models back while the others are applied."""
        hold = (
            "update cdc.installed_model set error = %s, retry_at = %s"
            " where declared_name = any (%s)"
        )
        self.execute(hold, "held", "infinity", list(models))
        yield
        self.execute(hold, None, None, list(models))

    def wait_for_waiting(self, sessions: int, *calls: Future[Any]) -> None:
        """Return once so many sessions wait for a lock; fail where a call is over."""
        waiting = (
            "select count(*) >= %s from pg_stat_activity "
            "where wait_event_type = 'Lock' and datname = current_database()"
        )

        def are_there() -> bool:
            ended = [call.exception() for call in calls if call.done()]
            assert not ended, "it ended without waiting"
            return bool(self.value(waiting, sessions))

        wait_until(are_there, f"{sessions} sessions wait for a lock", seconds=60, pause=0.02)
