"""A server of its own with the application's tables, and the project's commands run as roles."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from psycopg2 import errors

from testkit.commands import ROOT
from testkit.databases import Database, application_database
from testkit.fixtures import WAREHOUSE
from testkit.servers import Cluster, Server
from testkit.system import System

LOADER, DBT = "waltally_loader", "waltally_dbt"
SPARK, READER = "waltally_spark", "waltally_reader"
ALL = (LOADER, DBT, SPARK, READER)
CALLER, CREATOR = "caller", "creator"
"""Who may call cdc.apply, and who may create objects where the others look for theirs."""

SEED = "spark-submit spark/seed.py"
BUILD = ("loader", "run", "--once", "--build")
EXAMPLE = {"readable": "public.services", "lookups": "public.services,public.templates"}
"""What the shipped example has besides its models."""

# No line for `replication`: it is another word there than for a database, and whoever has one may
# copy the whole server.
ACCESS = "local all postgres trust\nhost all all 127.0.0.1/32 trust\n"


def grant_rights(system: System, *databases: Database, **variables: str) -> str:
    """Run ops/roles.sql at the source, or in another database, as an administrator does."""
    words = [word for name, value in variables.items() for word in ("-v", f"{name}={value}")]
    (place,) = databases or (system.source,)
    roles = str(ROOT / "ops/roles.sql")
    said = system.by("postgres").do("psql", "-X", *words, "-f", roles, PGDATABASE=place.name)
    return said.strip()


def may_not(system: System, role: str, *statements: str) -> None:
    """Fail where the role has the right to one of the statements."""
    with closing(system.session(role)) as session:
        for statement in statements:
            with session.cursor() as cursor, pytest.raises(errors.InsufficientPrivilege):
                cursor.execute(statement)
                pytest.fail(f"{role} may {statement}")


@contextmanager
def own_server(
    home: Path,
    access: str,
    settings: Mapping[str, str] | None = None,
    prepare: Callable[[Cluster], None] = lambda _: None,
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
        database = application_database(cluster, WAREHOUSE)
        database.insert(4, "delivered")
        yield System(database, home).by(LOADER)
        database.connection.close()
    finally:
        cluster.remove()
