"""One database of a test cluster, and the loader on it."""

from __future__ import annotations

import itertools
import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Self

from psycopg2 import errors

from loader.staging import migrate
from testkit import source as notify
from testkit.commands import Commands, RunningLoader, run_dbt, wait_until
from testkit.model import NOTIFY, Query, install_declared, manifest_of
from testkit.servers import (
    APPLICATION,
    BIN,
    Cluster,
    administer,
    connect,
    connect_target,
    load_application,
)
from waltally.database import Connection

_numbers = itertools.count()

TABLES = ("public.notifications", "public.notification_history")

ARCHIVE = (
    "insert into notification_history (id, service_id, template_id, notification_type, "
    "notification_status, created_at) select gen_random_uuid(), service_id, template_id, "
    "notification_type, notification_status, created_at from notifications"
)


class Database(Commands):
    """One database of a test cluster, and the loader on it."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.cluster = cluster
        self.name = name
        # One slot name a database, as slots are of the whole cluster.
        self.slot = f"slot_{name}"
        self.models: dict[str, Query] = {"ft_service_stats": NOTIFY}
        """The declared models."""
        self.manifest = manifest_of(self.models)
        """The declared models: what LOADER_MANIFEST is for the loader."""
        self.connection = connect(cluster.dsn(name))

    def with_functions(self) -> Self:
        """Make the staging schema, without a slot."""
        with closing(connect_target(self.cluster.dsn(self.name))) as target:
            migrate.upgrade(target)
        return self

    def load_notify(self) -> None:
        """Make the application's tables in this empty database."""
        load_application(self.cluster.dsn(self.name))

    def execute(self, query: str, *arguments: object) -> list[tuple[Any, ...]]:
        with self.connection.cursor() as cursor:
            cursor.execute(query, arguments or None)
            return cursor.fetchall() if cursor.description else []

    def value(self, query: str, *arguments: object) -> Any:
        ((found,),) = self.execute(query, *arguments)
        return found

    @contextmanager
    def holding(self, statement: str) -> Iterator[Connection]:
        """Hold what a statement takes, in a session of its own, until that ends."""
        with closing(connect(self.cluster.dsn(self.name))) as holder:
            holder.autocommit = False
            holder.ask(statement)
            yield holder

    @contextmanager
    def role(self, rights: str, options: str = "login") -> Iterator[str]:
        """Make a role with these rights, which call it {0}; drop it in the end."""
        name = f"role_of_{self.name}"
        self.execute(f"create role {name} {options}; {rights}".replace("{0}", name))
        try:
            yield name
        finally:
            self.execute(f"drop owned by {name} cascade; drop role {name}")

    def lock_waiters(self) -> list[int]:
        """Return the processes of the sessions that wait for a lock."""
        waiting = (
            "select pid from pg_stat_activity "
            "where wait_event_type = 'Lock' and datname = current_database()"
        )
        return [pid for (pid,) in self.execute(waiting)]

    def insert(self, count: int, status: str = "created", text: str = "hello") -> None:
        """Insert notifications in one transaction."""
        self.execute(
            'insert into notifications ("to", service_id, template_id, notification_type, '
            "notification_status, personalisation) select 'someone', t.service_id, t.id, 'email', "
            "%s, %s from (select * from templates order by id limit 1) as t, "
            "generate_series(1, %s)",
            *(status, text, count),
        )

    def fill(self, services: int = 3, templates: int = 12, rows: int = 600) -> None:
        """So many rows in both tables, some of them with a null dimension."""
        notify.fill(self.cluster.dsn(self.name), services, templates, rows, rows, null_share=0.05)

    def fill_many(self) -> None:
        """Rows of so many groups on so many pages that Spark reads them for the target."""
        for table in TABLES:
            self.execute(f"alter table {table} set (fillfactor = 10)")
        self.fill(services=100, templates=12_000, rows=24_000)

    def begin_block(self) -> None:
        """Let the WAL go on in its next 16 MB, for a test that counts partitions of the log.

        What it writes from here on is then in one partition, wherever the server's WAL was.
        """
        self.execute("select pg_switch_wal()")

    @property
    def settings(self) -> dict[str, str]:
        """What the loader has to know beside where the database is."""
        return {"LOADER_SLOT": self.slot, "LOADER_MANIFEST": str(self.manifest)}

    def environment(self, **more: str) -> dict[str, str]:
        return {**os.environ, **self.cluster.environment(self.name), **self.settings, **more}

    def install_declared(self, environment: Mapping[str, str]) -> None:
        """Install what LOADER_MANIFEST declares, as `dbt build` would."""
        own = self.cluster.dsn(self.name, environment["PGUSER"])
        target = environment.get("LOADER_TARGET_DSN") or own
        install_declared(target, environment)

    def declare(self, **models: Query) -> None:
        """Declare these models, by name, from here on and no others."""
        self.models, self.manifest = models, manifest_of(models)

    def dbt(self, *arguments: str, **environment: str) -> None:
        """Run dbt to its end; fail the test where it fails."""
        done = run_dbt(arguments, self.environment(**environment))
        assert done.returncode == 0, done.stdout + done.stderr

    def follow(self, **environment: str) -> RunningLoader:
        """Start `loader run` as a process, and return it once it follows the slot."""
        log = Path(tempfile.mkdtemp()) / "log"
        running = RunningLoader(self.environment(**environment), log)
        running.wait_for("following the slot")
        return running

    def take_baseline(
        self, name: str = "", at: str | None = None, identities: str | None = None
    ) -> None:
        """Take one for every model, or this, at this target, as a seed of empty tables does."""
        self.execute(
            "insert into cdc.baseline (slot_name, model_name, baseline_id, declaration, "
            "snapshot_lsn, system_identifier, table_identities) select slot_name, model_name, "
            "gen_random_uuid(), registered_model.declaration, coalesce(%s, position_lsn), "
            "system_identifier, %s from cdc.slot_position "
            "inner join cdc.registered_model using (slot_name) where %s in ('', model_name) "
            "on conflict do nothing",
            *(at, identities, name),
        )

    def staged(self) -> int:
        return int(self.value("select count(*) from cdc.change_log"))

    def reconnect(self) -> Database:
        """Return the database as it is after its server was away."""
        return Database(self.cluster, self.name)

    def close(self) -> None:
        """Drop the database with its slots and their origin."""
        self.connection.close()
        slots = f"from pg_replication_slots where database = '{self.name}'"
        with closing(connect(self.cluster.dsn())) as admin, admin.cursor() as cursor:

            def is_dropped() -> bool:
                # The backend of a loader that was killed may hold slot and origin for a moment.
                with suppress(errors.ObjectInUse):
                    cursor.execute(f"select pg_terminate_backend(active_pid) {slots}")
                    cursor.execute(f"select pg_drop_replication_slot(slot_name) {slots}")
                    cursor.execute(f"drop database if exists {self.name} with (force)")
                    cursor.execute(
                        "select pg_replication_origin_drop(roname) from pg_replication_origin "
                        "where roname = %s",
                        (f"waltally_{self.slot}",),
                    )
                    return True
                return False

            wait_until(is_dropped, "the database's slots and the origin are dropped")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def empty_database(cluster: Cluster, name: str = "", options: str = "") -> Database:
    """Make an empty database, under a new name where none is given."""
    name = name or f"test_{next(_numbers)}"
    administer(cluster, f"create database {name} {options}")
    return Database(cluster, name)


def application_database(cluster: Cluster, name: str = "") -> Database:
    """Make a database with the application's tables on a `Server`."""
    return empty_database(cluster, name, f"template {APPLICATION}")


def paste(cluster: Cluster, database: str, text: str, user: str = "postgres") -> str:
    """Give psql the text as a superuser, or this user, would paste it; return what it prints."""
    done = subprocess.run(
        [str(BIN / "psql"), "-XqAt", "-v", "ON_ERROR_STOP=1", "-d", cluster.dsn(database, user)],
        input=text + "\n",
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, f"{text}\n{done.stderr}"
    return done.stdout
