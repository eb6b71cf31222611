"""Every SQL remedy that setup prints works when it is pasted into psql, on every kind of server."""

from __future__ import annotations

import re
from contextlib import closing
from dataclasses import replace

import pytest

from loader.findings.identity import identity_wide
from loader.source.asking_tables import ask_table
from loader.source.remedies import PROVIDERS, replication_remedy
from testkit.commands import ROOT, wait_until
from testkit.databases import Database, application_database, paste
from testkit.model import NOTIFY, Query, parsed
from testkit.servers import PLUGINS, Server, administer
from testkit.standbys import MAJOR
from waltally.database import connect
from waltally.tables import Table, quoted


def remedies(said: str) -> list[str]:
    return re.findall(r"^Try: (.*)", said, re.MULTILINE)


def test_settings_that_need_a_restart() -> None:
    settings = {"wal_level": "replica", "max_replication_slots": "1", "max_wal_senders": "1"}
    with Server({"fsync": "off", **settings}) as bare, application_database(bare) as database:
        administer(bare, "select pg_create_physical_replication_slot('taken')")
        code, said = database.refused("setup")
        assert (code, said.count("\nTry: ")) == (11, 2), "the level, and the slots"
        for remedy in remedies(said):
            paste(bare, database.name, remedy)
        bare.stop()
        bare.start()
        database.must("setup")


def test_a_role_that_may_not_replicate(source: Database) -> None:
    role = f'Odd "role" {source.name}'
    named = quoted(role)
    source.execute(f"create role {named} login; grant create on database {source.name} to {named}")
    try:
        for provider in PROVIDERS:
            source.execute(f"create role {provider.administrators}")
            (remedy,) = remedies(source.refused("setup", "--check", PGUSER=role)[1])
            source.execute(f"drop role {provider.administrators}")
            assert remedy == replication_remedy(role, provider), "that of the provider"
        (remedy,) = remedies(source.refused_with(15, "", "setup", PGUSER=role))
        paste(source.cluster, source.name, remedy)
        source.must("setup", PGUSER=role)
        source.must("teardown", "--drop-data", "--yes", PGUSER=role)
    finally:
        source.execute(f"drop owned by {named}; drop role {named}")


def test_the_plugin_list_keeps_what_others_need() -> None:
    with Server({"fsync": "off"}) as bare, application_database(bare, "here") as database:
        if not bare.knows(PLUGINS):
            pytest.skip("this minor release has no output_plugin_libraries")
        database.execute(
            "create role plain login replication; grant create on database here to plain;"
            "grant select on notifications, notification_history to plain"
        )
        for listed, user in (("pgoutput, test_decoding", "postgres"), ('"odd, one"', "plain")):
            bare.configure({PLUGINS: f"'{listed}'"})
            database.execute("select pg_reload_conf()")
            wait_until(lambda: database.value(f"show {PLUGINS}") == listed, "it is reloaded")  # noqa: B023
            (remedy,) = remedies(database.refused_with(11, "", "setup", PGUSER=user))
            assert ("gexec" in remedy) == (user == "plain")
            paste(bare, "here", remedy)
            kept = f"{listed}, wal2json"
            wait_until(lambda: database.value(f"show {PLUGINS}") == kept, "what is there stays")  # noqa: B023
            database.must("setup", PGUSER=user)
            database.must("teardown", "--drop-data", "--yes", PGUSER=user)
            database.execute("drop schema analytics cascade")


COPY = """
    create table {0} (like notifications including all);
    alter table {0} alter service_id set not null, alter template_id set not null,
        alter notification_status type varchar(40), alter notification_status set not null,
        alter reference type varchar(40), alter reference set default '',
        alter reference set not null
"""
DIMENSIONS = "service_id, template_id, notification_type, notification_status"
IDENTITIES: dict[str, tuple[str, str]] = {
    'Odd ""one': ("", "i"),
    # The index's name would be too long, in bytes alone.
    "ä" * 31: ("", "i"),
    "its_name_is_taken": (
        "create index its_name_is_taken_replica_identity on {0} (id);"
        "create view its_name_is_taken_replica_identity_2 as select 1 as one",
        "i",
    ),
    "no_primary_key": ("alter table {0} drop constraint no_primary_key_pkey", "f"),
    "no_column_id": ("alter table {0} rename id to notification_id", "i"),
    "key_of_two_columns": (
        "alter table {0} drop constraint key_of_two_columns_pkey,"
        "add primary key (reference, notification_status)",
        "i",
    ),
    "dimension_may_be_null": ("alter table {0} alter service_id drop not null", "f"),
    # An index would refuse the application's own long values, or two rows that swap their keys.
    "long_text": ("alter table {0} alter notification_status type text", "f"),
    "deferrable_key": (
        "alter table {0} drop constraint deferrable_key_pkey, add primary key (id) deferrable",
        "f",
    ),
    "wide_index": (f"create unique index on {{0}} ({DIMENSIONS}, id)", "i"),
    "index_not_unique_or_partial": (
        f"create index on {{0}} (id, {DIMENSIONS});"
        f"create unique index on {{0}} (id, {DIMENSIONS}) where id is not null",
        "i",
    ),
    "index_only_includes": (
        f"create unique index included on {{0}} (id) include ({DIMENSIONS});"
        "alter table {0} replica identity using index included",
        "i",
    ),
}
"""Of each table what is done to it, and the identity that the remedy gives it."""


def test_identities_that_are_too_narrow(source: Database) -> None:
    declared: dict[str, Query] = {}
    for name, (ddl, _) in IDENTITIES.items():
        source.execute(COPY.format(f'"{name}"'))
        if ddl:
            source.execute(ddl.format(f'"{name}"'))
        table = name.replace('""', '"')
        query = NOTIFY.query.replace("{public.notifications}", f"{{public.{table}}}")
        declared[f"ft_{len(declared)}"] = replace(NOTIFY, query=query)
    source.declare(**declared)
    found = remedies(source.refused_with(17, "", "setup"))
    assert len(found) == len(IDENTITIES), found
    for remedy in found:
        paste(source.cluster, source.name, remedy)
    source.must("setup")
    for name, (_, expected) in IDENTITIES.items():
        identity = "select relreplident::text from pg_class where oid = %s::regclass"
        assert source.value(identity, f'public."{name}"') == expected, name


LONG = ("text", "varchar", "numeric", "jsonb", "text[]", "bytea", "bit varying", "long_domain")
SHORT = {
    "varchar(300)": "repeat(chr(128512), 300)",
    "char(300)": "repeat(chr(128512), 300)",
    "numeric(900, 100)": "repeat('8', 800)::numeric + 0.1",
    "bit varying(900)": "repeat('10', 450)::bit varying",
    "inet": "'2001:db8::ff00:42:8329/64'",
    "notification_type": "'letter'",
    "name": "repeat('x', 1000)",
    "short_domain": "repeat(chr(128512), 300)",
}
"""By type of which every value fits into an index, the longest one."""


def test_no_printed_index_refuses_a_value_of_the_application(source: Database) -> None:
    source.execute(
        "create domain long_domain as text; create domain inner_domain as varchar(300);"
        "create domain short_domain as inner_domain check (value <> '')"
    )
    for number, type_ in enumerate((*LONG, *SHORT)):
        name = f"typed_{number}"
        source.execute(f"create table {name} (id int primary key, value {type_} not null)")
        if type_ in ("varchar(300)", "char(300)", "short_domain"):
            source.execute(f"alter table {name} alter value set storage plain")
        said = identity_of(source, name, "value")
        is_long = "; -- value may be too long for an index" in said
        assert is_long == (type_ in LONG), (type_, said)
        paste(source.cluster, source.name, said)
        if not is_long:
            assert said.startswith("create unique index")
            source.execute(f"insert into {name} values (1, {SHORT[type_]})")
    # Each is short, and all together are not.
    source.execute(
        "create table many (id int primary key, "
        "a varchar(250) not null, b varchar(250) not null, c varchar(250) not null)"
    )
    said = identity_of(source, "many", "a", "b", "c")
    assert '"many" replica identity full; -- a, b, c may be too long' in said
    short = said[said.index("create unique index") :]
    paste(source.cluster, source.name, short)
    chosen = "select relreplident::text from pg_class where relname = 'many'"
    assert source.value(chosen) == "i"


def test_no_identity_is_printed_that_a_publication_does_not_publish(source: Database) -> None:
    """PostgreSQL would refuse the application's updates and deletes from then on."""
    source.execute(
        "create table listed (id int primary key, value int, more int);"
        "create publication narrow for table listed (id, value);"
        "create publication of_inserts for table listed (id) with (publish = 'insert')"
    )
    said = identity_of(source, "listed", "value")
    assert "replica identity full" not in said and "publication narrow" in said
    source.execute("alter table listed alter value set not null")
    assert identity_of(source, "listed", "value").startswith("create unique index")
    source.execute("drop publication narrow")
    source.execute("alter table listed alter value drop not null")
    paste(source.cluster, source.name, identity_of(source, "listed", "value"))
    source.execute("insert into listed values (1, 2, 3); update listed set more = 4")


def identity_of(source: Database, table: str, *columns: str) -> str:
    """The remedy for a table with the default identity whose columns a model needs."""
    model = parsed("ft", columns, f"public.{table}")
    with closing(connect(source.cluster.dsn(source.name), "source")) as session:
        info = ask_table(session, Table("public", table), [model])
    found = identity_wide(info, columns)
    assert found is not None
    return found.remedy


TABLES = {
    "large, for which this identity is the cheaper one": (
        "alter table notifications replica identity default, alter service_id set not null, "
        "alter template_id set not null, alter notification_status type varchar(20), "
        "alter notification_status set not null;"
        "update pg_class set reltuples = 2000000 where relname = 'notifications'",
        17,
        "replica identity full; -- an index would take about 172.0 MB",
    ),
    "not logged": ("alter table notifications set unlogged", 17, "is not logged"),
    "inherited by others": (
        'create table "Heir, 100%" () inherits (notifications)',
        17,
        'counts the rows of public."Heir, 100%"',
    ),
    "a virtual column, which the plugin sends as null": (
        "alter table notifications drop notification_status, add raw text default 'SENT', "
        "add notification_status text generated always as (lower(raw)) virtual not null, "
        "replica identity full",
        17,
        "notification_status as a virtual generated column",
    ),
}
"""What is done to a table, and what is said of it."""


def test_tables_that_cannot_be_followed(source: Database) -> None:
    source.insert(3)
    source.execute("select pg_stat_force_next_flush()")
    source.must("setup")
    for case, (ddl, expected, words) in TABLES.items():
        if "virtual" in ddl and MAJOR < 18:
            continue
        source.execute(ddl)
        for command in (("setup",), ("status",)):
            done = source.loader(*command)
            said = " ".join((done.stdout + done.stderr).split())
            assert (done.returncode, words in said) == (expected, True), f"{case}: {said}"
        (remedy,) = re.findall(r"Try: .*?(alter table .*?;)", done.stdout)
        paste(source.cluster, source.name, remedy)
        # A column of another type is another query.
        source.must("setup")
        assert source.must("setup") == "Everything is set up already.\n", case


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
        # The models' tables stay, with the one who tried.
        database.execute("drop schema analytics cascade")
        administer(managed, "alter database here owner to master")
        for table in ("notifications", "notification_history"):
            database.execute(f"alter table {table} owner to master")
        roles = (ROOT / "ops" / "roles.sql").read_text()
        paste(managed, "here", roles, user="master")
        administer(managed, "alter role waltally_loader replication")
        # dbt's role alone installs what is declared.
        database.must("setup", PGUSER="waltally_loader", LOADER_MANIFEST="")
        paste(managed, "here", roles, user="master")
        database.install_declared(database.environment(PGUSER="waltally_dbt"))
        paste(managed, "here", roles, user="master")
        for right in (
            "pg_has_role('waltally_loader', 'rds_replication', 'usage')",
            "pg_has_role('waltally_spark', 'rds_replication', 'usage')",
            "has_table_privilege('waltally_dbt', 'cdc.change_log', 'select')",
            "has_column_privilege('waltally_spark', 'notifications', 'service_id', 'select')",
        ):
            assert database.value(f"select {right}"), right
