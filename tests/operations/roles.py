"""A server of its own with the application's tables, and the project's commands run as roles."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import psycopg2
from psycopg2 import extensions

from demo import recount
from demo.cluster import Cluster
from tests.support import LOADER, ROOT, Database, run
from tests.support.commands import profiles

LOADER_ROLE, DBT_ROLE = "waltally_loader", "waltally_dbt"
SPARK_ROLE, READER_ROLE = "waltally_spark", "waltally_reader"
ROLES = (LOADER_ROLE, DBT_ROLE, SPARK_ROLE, READER_ROLE)

SEED = (
    "spark-submit",
    "--master",
    "local[2]",
    "--driver-java-options",
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark/seed.py",
)


class RoleCommands:
    """One database that is source and target; commands run as one of the roles."""

    def __init__(self, cluster: Cluster, database: Database, home: Path) -> None:
        self.cluster = cluster
        self.database = database
        self.home = home
        self.more: dict[str, str] = {}
        """What every command's environment has besides, for instance how to connect."""

    def environment(self, role: str, **more: str) -> dict[str, str]:
        """The environment of a command: nothing of ours leads to another database or role."""
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PG", "LOADER_", "DBT_", "SPARK", "PYSPARK"))
        }
        return {
            **kept,
            **profiles(self.home),
            **self.cluster.environment(self.database.name, role),
            "LOADER_SLOT": self.database.slot,
            **self.more,
            **more,
        }

    def run(self, role: str, *command: str, **more: str) -> subprocess.CompletedProcess[str]:
        """Run a command as a role to its end."""
        return run(list(command), self.environment(role, **more))

    def must(self, role: str, *command: str, **more: str) -> str:
        """Run a command as a role and return what it said; fail the test where it fails."""
        done = self.run(role, *command, **more)
        assert done.returncode == 0, f"{command} as {role}\n{done.stdout[-4000:]}\n{done.stderr}"
        return done.stdout + done.stderr

    def loader(self, *arguments: str, **more: str) -> str:
        """Run the loader as its role, dbt in it as dbt's."""
        return self.must(LOADER_ROLE, str(LOADER), *arguments, **{"DBT_ROLE": DBT_ROLE, **more})

    def grant(self, **variables: str) -> str:
        """Run ops/roles.sql as an administrator does."""
        words = [word for name, value in variables.items() for word in ("-v", f"{name}={value}")]
        said = self.must("postgres", "psql", "-X", *words, "-f", str(ROOT / "ops/roles.sql"))
        return said.strip()

    def set_passwords(self, password: str) -> None:
        """Give every role this password, without a word in the server's log."""
        self.database.execute("set log_statement to 'none'")
        for role in ROLES:
            self.database.execute(f"alter role {role} password %s", password)
        self.database.execute("reset log_statement")

    def differences(self) -> list[recount.Difference]:
        """Where the fact differs from a recount."""
        dsn = self.cluster.dsn(self.database.name)
        return recount.differences(dsn, slot=self.database.slot)

    def connect(self, role: str) -> extensions.connection:
        """Open a session of a role, in autocommit mode."""
        connection = psycopg2.connect(self.cluster.dsn(self.database.name, role))
        connection.autocommit = True
        return connection


@contextmanager
def own_server(
    home: Path,
    access: str,
    settings: Mapping[str, str] | None = None,
    prepare: Callable[[Cluster], None] = lambda _: None,
) -> Iterator[RoleCommands]:
    """Yield an estate on a new server: `access` is its pg_hba.conf, `prepare` runs before it."""
    cluster = Cluster({"fsync": "off", **(settings or {})})
    try:
        cluster.create()
        (cluster.data / "pg_hba.conf").write_text(access)
        prepare(cluster)
        cluster.start()
        admin = psycopg2.connect(cluster.dsn())
        admin.autocommit = True
        with admin.cursor() as cursor:
            cursor.execute("create database notify")
        admin.close()
        database = Database(cluster, "notify")
        database.load_notify()
        database.insert(4, "delivered")
        yield RoleCommands(cluster, database, home)
        database.connection.close()
    finally:
        cluster.remove()
