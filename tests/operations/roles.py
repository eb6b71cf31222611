"""A server of its own with the application's tables, and the project's commands run as roles."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from testkit.commands import ROOT
from testkit.databases import Database, application_database
from testkit.fixtures import WAREHOUSE
from testkit.servers import Cluster, Server
from testkit.system import System

LOADER_ROLE, DBT_ROLE = "waltally_loader", "waltally_dbt"
SPARK_ROLE, READER_ROLE = "waltally_spark", "waltally_reader"
ROLES = (LOADER_ROLE, DBT_ROLE, SPARK_ROLE, READER_ROLE)

SEED_JOB = "spark-submit spark/seed.py"

# No line for `replication`: it is another word there than for a database, and whoever has one may
# copy the whole server.
ACCESS = "local all postgres trust\nhost all all 127.0.0.1/32 trust\n"


def install(system: System, **more: str) -> None:
    """Have dbt install the models, as its role."""
    system.by(DBT_ROLE).do("dbt", "--quiet", "run", **more)


def grant_rights(system: System, *databases: Database, **variables: str) -> str:
    """Run ops/roles.sql at the source, or in another database, as an administrator does."""
    words = [word for name, value in variables.items() for word in ("-v", f"{name}={value}")]
    (place,) = databases or (system.source,)
    roles = str(ROOT / "ops/roles.sql")
    said = system.by("postgres").do("psql", "-X", *words, "-f", roles, PGDATABASE=place.name)
    return said.strip()


def set_passwords(system: System, password: str) -> None:
    """Give every role this password, without a word in the server's log."""
    system.source.execute("set log_statement to 'none'")
    for role in ROLES:
        system.source.execute(f"alter role {role} password %s", password)
    system.source.execute("reset log_statement")


@contextmanager
def own_server(
    home: Path,
    access: str,
    settings: Mapping[str, str] | None = None,
    prepare: Callable[[Cluster], None] = lambda _: None,
    name: str = WAREHOUSE,
) -> Iterator[System]:
    """Yield a system on a new server, whose commands run as the loader's role.

    `access` is its pg_hba.conf, `prepare` runs before it starts.
    """
    cluster = Server({"fsync": "off", **(settings or {})})
    try:
        cluster.create()
        (cluster.data / "pg_hba.conf").write_text(access)
        prepare(cluster)
        cluster.start()
        database = application_database(cluster, name)
        database.insert(4, "delivered")
        yield System(database, home).by(LOADER_ROLE)
        database.connection.close()
    finally:
        cluster.remove()
