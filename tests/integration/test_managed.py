"""`loader setup` where a provider manages the server: nobody may `alter system`.

A stand-in on servers of our own. What the providers do was read, not run (docs/source.md).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing

import pytest
from psycopg2 import errors as pg

from loader.source.remedies import PROVIDERS, setting_remedy
from testkit.commands import ROOT
from testkit.databases import Database, application_database, paste
from testkit.servers import Cluster, Server, administer, connect

RDS = PROVIDERS[0]


@pytest.fixture
def managed() -> Iterator[Cluster]:
    """A server as on RDS, whose administrator is `master`; the loader's role is `plain`."""
    server = Server({"fsync": "off", "wal_level": "replica", "max_replication_slots": "1"})
    with server:
        administer(
            server,
            "select pg_create_physical_replication_slot('taken')",
            "create role master login createrole createdb",
            "create role plain login",
            "create role rds_superuser",
            "grant rds_superuser to master",
            "create role rds_replication",
            "grant rds_replication to master with admin option",
        )
        with (
            closing(connect(server.dsn(user="master"))) as master,
            master.cursor() as cursor,
            pytest.raises(pg.InsufficientPrivilege),
        ):
            cursor.execute("alter system set wal_level = 'logical'")
        yield server


def remedies(database: Database, *arguments: str) -> list[str]:
    done = database.loader(*arguments, PGUSER="plain")
    assert done.returncode, done.stdout
    return re.findall("^Try: (.*)", done.stderr, re.MULTILINE)


@pytest.mark.slow
def test_remedies_on_rds_work(managed: Cluster) -> None:
    """A parameter group is outside the database: here the server's own file is in its place."""
    with closing(application_database(managed, "here").connection):
        decoding, right, slots, target = remedies(Database(managed, "here"), "setup")
    assert "rds.logical_replication = 1, then reboot" in decoding
    assert target == "grant it as docs/roles.md says"
    assert slots.startswith(
        setting_remedy(RDS, "max_replication_slots", "6", needs_restart=True) + "; or drop"
    )
    paste(managed, "here", right, user="master")
    # This server asks for the attribute, where RDS asks for the membership.
    administer(managed, "alter role plain replication")
    managed.stop()
    # As RDS does with rds.logical_replication.
    managed.configure({"wal_level": "logical", "max_replication_slots": "20"})
    managed.start()
    with Database(managed, "here") as database:
        database.execute("grant create on database here to plain")
        database.must("setup", PGUSER="plain")
        # The administrator can make the roles of ops/ too.
        database.must("teardown", "--drop-data", "--yes", PGUSER="plain")
        administer(managed, "alter database here owner to master")
        for table in ("notifications", "notification_history"):
            database.execute(f"alter table {table} owner to master")
        roles = (ROOT / "ops" / "roles.sql").read_text()
        paste(managed, "here", roles, user="master")
        assert database.value(
            "select pg_has_role('waltally_loader', 'rds_replication', 'usage')"
            " and pg_has_role('waltally_spark', 'rds_replication', 'usage')"
        )
        administer(managed, "alter role waltally_loader replication")
        database.must("setup", PGUSER="waltally_loader")
        paste(managed, "here", roles, user="master")
        assert database.value(
            "select has_table_privilege('waltally_dbt', 'cdc.change_log', 'select')"
            " and has_column_privilege('waltally_spark', 'notifications', 'service_id', 'select')"
        )
