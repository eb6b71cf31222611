"""`loader setup` where a provider manages the server: nobody may `alter system`.

A stand-in on a server of our own. What the providers do was read, not run (docs/source.md).
"""

from __future__ import annotations

import pytest

from testkit.commands import ROOT
from testkit.databases import application_database, paste
from testkit.servers import Server, administer


@pytest.mark.slow
def test_an_administrator_who_is_no_superuser_sets_up_and_makes_the_roles() -> None:
    """As on RDS, whose administrator is `master`; the loader's role is `plain`."""
    with Server({"fsync": "off"}) as managed, application_database(managed, "here") as database:
        administer(
            managed,
            "create role master login createrole createdb",
            "create role plain login",
            "grant create on database here to plain",
            "create role rds_superuser",
            "grant rds_superuser to master",
            "create role rds_replication",
            "grant rds_replication to master with admin option",
        )
        said = database.refused_with(15, "", "setup", PGUSER="plain")
        paste(managed, "here", said.split("Try: ")[1], user="master")
        # This server asks for the attribute, where RDS asks for the membership.
        administer(managed, "alter role plain replication")
        database.must("setup", PGUSER="plain")
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
