"""A server of its own with the application's tables, and the project's commands run as roles."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from psycopg2 import extensions

from testkit import recount
from testkit.commands import LOADER, ROOT, only_environment, profiles, run, run_dbt, run_loader
from testkit.comparison import Difference
from testkit.databases import Database, application_database
from testkit.facts import shipped_manifest
from testkit.fixtures import WAREHOUSE
from testkit.models import Models
from testkit.servers import Cluster, Server, connect
from testkit.spark_jobs import run_job

LOADER_ROLE, DBT_ROLE = "waltally_loader", "waltally_dbt"
SPARK_ROLE, READER_ROLE = "waltally_spark", "waltally_reader"
ROLES = (LOADER_ROLE, DBT_ROLE, SPARK_ROLE, READER_ROLE)

SEED_JOB = "spark-submit spark/seed.py"

SEED = (
    "spark-submit",
    "--master",
    "local[2]",
    "--driver-java-options",
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark/seed.py",
)


# No line for `replication`: it is another word there than for a database, and whoever has one may
# copy the whole server.
ACCESS = "local all postgres trust\nhost all all 127.0.0.1/32 trust\n"


class RoleCommands:
    """One database that is source and target; commands run as one of the roles."""

    def __init__(
        self, cluster: Cluster, database: Database, home: Path, models: Models | None = None
    ) -> None:
        self.cluster = cluster
        self.database = database
        self.home = home
        self._models = models
        self.in_process = True
        """Whether loader and dbt run in the test's own process, where only their work is seen."""

    def environment(self, role: str, **more: str) -> dict[str, str]:
        """The environment of a command: nothing in it leads to another database or role."""
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
            "LOADER_MANIFEST": str(shipped_manifest()),
            **more,
        }

    def run(self, role: str, *command: str, **more: str) -> subprocess.CompletedProcess[str]:
        """Run a command as a role to its end."""
        environment = self.environment(role, **more)
        if self.in_process and command[0] == str(LOADER):
            return run_loader(command[1:], environment)
        if self.in_process and command[0] == "dbt":
            return run_dbt(command[1:], environment)
        return run(list(command), environment)

    def must(self, role: str, *command: str, **more: str) -> str:
        """Run a command as a role and return what it said; fail the test where it fails."""
        done = self.run(role, *command, **more)
        assert done.returncode == 0, f"{command} as {role}\n{done.stdout[-4000:]}\n{done.stderr}"
        return done.stdout + done.stderr

    def loader(self, *arguments: str, **more: str) -> str:
        """Run the loader as its role."""
        return self.must(LOADER_ROLE, str(LOADER), *arguments, **more)

    def install(self, **more: str) -> None:
        """Have dbt install the models, as its role."""
        assert self._models is not None
        with only_environment(self.environment(DBT_ROLE, **more)):
            self._models.install()

    def job(self, command: str, role: str = SPARK_ROLE, **more: str) -> None:
        """Run a Spark job in this process; fail the test where the job fails."""
        run_job(command, self.environment(role, **more))

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

    def differences(self) -> list[Difference]:
        """Where the fact differs from a recount."""
        dsn = self.cluster.dsn(self.database.name)
        return recount.differences(dsn, slot=self.database.slot)

    def connect(self, role: str) -> extensions.connection:
        """Open a session of a role, in autocommit mode."""
        return connect(self.cluster.dsn(self.database.name, role))


@contextmanager
def own_server(
    home: Path,
    access: str,
    models: Models | None = None,
    settings: Mapping[str, str] | None = None,
    prepare: Callable[[Cluster], None] = lambda _: None,
    name: str = WAREHOUSE,
) -> Iterator[RoleCommands]:
    """Yield commands on a new server: `access` is its pg_hba.conf, `prepare` runs before it.

    Where `models` are given, dbt can install them in this process; they are parsed for one name of
    a database.
    """
    cluster = Server({"fsync": "off", **(settings or {})})
    try:
        cluster.create()
        (cluster.data / "pg_hba.conf").write_text(access)
        prepare(cluster)
        cluster.start()
        database = application_database(cluster, name)
        database.insert(4, "delivered")
        yield RoleCommands(cluster, database, home, models)
        database.connection.close()
    finally:
        cluster.remove()
