"""What the integration tests share: a database to ask, the loader as a process, waiting."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import psycopg2

from demo.cluster import BIN, Cluster

ROOT = Path(__file__).parent.parent
LOADER = Path(sys.executable).parent / "loader"
SLOT = "notify_dashboard_replication_slot"


class Database:
    """One database of a test cluster."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.cluster = cluster
        self.name = name
        # One slot name a database, as slots are of the whole cluster.
        self.slot = f"slot_{name}"
        self.connection = psycopg2.connect(cluster.dsn(name))
        self.connection.autocommit = True

    def load_notify(self, identity: str = "full") -> None:
        self.execute((ROOT / "demo" / "notify.sql").read_text())
        for table in ("notifications", "notification_history"):
            self.execute(f"alter table {table} replica identity {identity}")
        self.execute(
            "insert into services (name) select 'service ' || n from generate_series(1, 3) as n;"
            "insert into templates (service_id, template_type, name) "
            "select id, 'email', 'template of ' || name from services"
        )

    def execute(self, query: str, *arguments: object) -> list[tuple[Any, ...]]:
        with self.connection.cursor() as cursor:
            cursor.execute(query, arguments or None)
            return cursor.fetchall() if cursor.description else []

    def value(self, query: str, *arguments: object) -> Any:
        ((found,),) = self.execute(query, *arguments)
        return found

    def insert(self, count: int, status: str = "created", text: str = "hello") -> None:
        """Insert notifications in one transaction."""
        self.execute(
            'insert into notifications ("to", service_id, template_id, notification_type, '
            "notification_status, personalisation) select 'someone', t.service_id, t.id, 'email', "
            "%s, %s from (select * from templates order by id limit 1) as t, "
            "generate_series(1, %s)",
            status,
            text,
            count,
        )

    def environment(self, **more: str) -> dict[str, str]:
        return {
            **os.environ,
            **self.cluster.environment(self.name),
            "LOADER_SLOT": self.slot,
            **more,
        }

    def loader(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run the loader to its end."""
        return run([str(LOADER), *arguments], self.environment(**environment))

    def must(self, *arguments: str, **environment: str) -> str:
        """Run the loader and return its standard output; fail the test where it fails."""
        done = self.loader(*arguments, **environment)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def start_loader(self, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        """Start the loader in the background."""
        return subprocess.Popen(
            [str(LOADER), *arguments],
            env=self.environment(**environment),
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def staged(self) -> int:
        return int(self.value("select count(*) from cdc.change_log"))

    def close(self) -> None:
        self.connection.close()
        admin = psycopg2.connect(self.cluster.dsn())
        admin.autocommit = True
        with admin.cursor() as cursor:
            cursor.execute(
                "select pg_terminate_backend(active_pid) from pg_replication_slots "
                "where database = %s and active_pid is not null",
                (self.name,),
            )

            def dropped() -> bool:
                cursor.execute(
                    "select pg_drop_replication_slot(slot_name) from pg_replication_slots "
                    "where database = %s and active_pid is null",
                    (self.name,),
                )
                cursor.execute(
                    "select count(*) from pg_replication_slots where database = %s", (self.name,)
                )
                return cursor.fetchone() == (0,)

            wait_until(dropped, "the database's slots are dropped")
            cursor.execute(
                "select pg_replication_origin_drop(roname) from pg_replication_origin "
                "where roname = %s",
                (f"waltally_{self.slot}",),
            )
            cursor.execute(f"drop database {self.name} with (force)")
        admin.close()

    def __enter__(self) -> Database:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def run(
    command: list[str], environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True)


def paste(cluster: Cluster, database: str, text: str) -> None:
    """Give psql the text as a superuser would paste it."""
    done = subprocess.run(
        [str(BIN / "psql"), "-X", "-v", "ON_ERROR_STOP=1", "-d", cluster.dsn(database)],
        input=text + "\n",
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, f"{text}\n{done.stderr}"


def wait_until(condition: Callable[[], object], claim: str, seconds: float = 60.0) -> None:
    """Poll until the condition holds; fail with the claim where it does not in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not in {seconds:g} s: {claim}"
        time.sleep(0.05)
