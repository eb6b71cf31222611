"""Every SQL remedy that setup prints works when it is pasted into psql, on every kind of server."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing

import psycopg
import pytest
from common.command import Settings
from counting import checks, snapshot

from loader.staging.records import SlotPosition
from testkit.commands import wait_until
from testkit.databases import Database, application_database, paste
from testkit.facts import NOTIFY, notify
from testkit.servers import Cluster, Server
from waltally.database import connect
from waltally.errors import PluginNotAllowed

PLUGINS = "output_plugin_libraries"


def remedies(said: str) -> list[str]:
    return re.findall(r"^Try: (.*)", said, re.MULTILINE)


def in_database(cluster: Cluster) -> Database:
    return application_database(cluster, "here")


@pytest.fixture
def bare() -> Iterator[Cluster]:
    """A server that is not started yet."""
    made = Server({"fsync": "off"})
    try:
        made.create()
        yield made
    finally:
        made.remove()


def test_settings_that_need_a_restart(bare: Cluster) -> None:
    bare.configure(
        {"wal_level": "replica", "max_replication_slots": "1", "max_wal_senders": "1"},
    )
    bare.start()
    with closing(psycopg.connect(bare.dsn(), autocommit=True)) as admin:
        admin.execute("select pg_create_physical_replication_slot('taken')")
    with closing(in_database(bare).connection):
        database = Database(bare, "here")
        done = database.loader("setup")
        assert done.returncode == 11
        found = remedies(done.stderr)
        assert len(found) == 2, "the level, and the slots"
        for remedy in found:
            paste(bare, "here", remedy)
        database.connection.close()
    bare.stop()
    bare.start()
    with Database(bare, "here") as database:
        database.must("setup")


def test_a_role_that_may_not_replicate(source: Database) -> None:
    role = f'Odd "role" {source.name}'
    quoted = '"' + role.replace('"', '""') + '"'
    source.execute(
        f"create role {quoted} login; grant create on database {source.name} to {quoted}"
    )
    try:
        done = source.loader("setup", PGUSER=role)
        (remedy,) = remedies(done.stderr)
        assert done.returncode == 15
        paste(source.cluster, source.name, remedy)
        source.must("setup", PGUSER=role)
        source.must("teardown", "--purge", "--yes", PGUSER=role)
    finally:
        source.execute(f"drop owned by {quoted}; drop role {quoted}")


@pytest.mark.parametrize(
    "listed",
    [
        "'pgoutput, test_decoding'",
        pytest.param(None, marks=pytest.mark.slow),
        pytest.param("'pgoutput, \"odd, one\"'", marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("may_read", [True, False], ids=["superuser", "plain role"])
def test_the_plugin_list_keeps_what_others_need(
    bare: Cluster, listed: str | None, may_read: bool
) -> None:
    if not bare.knows(PLUGINS):
        pytest.skip("this minor release has no output_plugin_libraries")
    if listed is None:
        del bare.settings[PLUGINS]
    bare.configure({} if listed is None else {PLUGINS: listed})
    bare.start()
    with in_database(bare) as database:
        before = database.value(f"show {PLUGINS}")
        if may_read:
            user = "postgres"
        else:
            user = "plain"
            database.execute(
                "create role plain login replication; grant create on database here to plain;"
                "grant select on notifications, notification_history to plain"
            )
        for arguments in (("setup", "--check"), ("setup",)):
            done = database.loader(*arguments, PGUSER=user)
            assert done.returncode == 13, done.stderr
        (remedy,) = remedies(done.stderr)
        assert ("gexec" in remedy) == (not may_read)
        assert seed_remedy(database, user) == remedy
        paste(bare, "here", remedy)
        wait_until(lambda: "wal2json" in database.value(f"show {PLUGINS}"), "the list is reloaded")
        assert database.value(f"show {PLUGINS}") == f"{before}, wal2json"
        for plugin in {"pgoutput", "test_decoding"} & set(before.split(", ")):
            database.execute("select pg_create_logical_replication_slot(%s, %s)", plugin, plugin)
        database.must("setup", PGUSER=user)


def seed_remedy(database: Database, user: str) -> str:
    """What Spark says to the same server: by the list, or where it is hidden by the refusal."""
    dsn = database.cluster.dsn("here", user)
    settings = Settings(dsn, dsn, database.slot, "cdc", timeout=30)
    row = database.execute("select system_identifier::text from pg_control_system()")
    with (
        closing(connect(dsn, "source")) as monitor,
        pytest.raises(PluginNotAllowed) as caught,
    ):
        checks.source(monitor, SlotPosition("s", row[0][0], "here", 0, 0))
        with snapshot.export(settings, [notify()], monitor):
            pass
    return caught.value.remedy


LONG = "n" * 63
UMLAUTS = "ä" * 31
IDENTITIES = {
    "the name has blanks, capitals and quotes": 'alter table notifications rename to "Odd ""one"',
    "the index's name would be too long": f"alter table notifications rename to {LONG}",
    "the index's name would be longer in bytes": f'alter table notifications rename to "{UMLAUTS}"',
    "the index's name is taken": "create index notifications_replica_identity"
    " on notifications (id);"
    "create view notifications_replica_identity_2 as select 1 as one",
    "there is no primary key": "alter table notifications drop constraint notifications_pkey",
    "there is no column id": "alter table notifications rename id to notification_id",
    "the key is of two columns": "alter table notifications drop constraint notifications_pkey,"
    "add primary key (reference, notification_status)",
    "a dimension may be null": "alter table notifications alter service_id drop not null",
    "a wide index is there": "create unique index there on notifications"
    " (notification_type, notification_status, service_id, template_id, id)",
    "a wide index is not unique, or partial": "create index one on notifications"
    " (id, service_id, template_id, notification_type, notification_status);"
    "create unique index two on notifications"
    " (id, service_id, template_id, notification_type, notification_status) where id is not null",
    "the identity's index only includes the dimensions": "create unique index one on notifications"
    " (id) include (service_id, template_id, notification_type, notification_status);"
    "alter table notifications replica identity using index one",
}


QUICK = (
    "the name has blanks, capitals and quotes",
    "there is no primary key",
    "a wide index is not unique, or partial",
)


@pytest.mark.parametrize(
    "ddl",
    [
        pytest.param(ddl, id=case, marks=() if case in QUICK else pytest.mark.slow)
        for case, ddl in IDENTITIES.items()
    ],
)
def test_an_identity_that_is_too_narrow(source: Database, ddl: str) -> None:
    source.execute(
        "alter table notifications replica identity default, alter service_id set not null, "
        "alter template_id set not null, alter notification_status set not null, "
        "alter reference set default '', alter reference set not null"
    )
    source.execute(ddl)
    ((name,),) = source.execute(
        "select relname from pg_class where relkind = 'r' and relname <> 'notification_history' "
        "and oid in (select attrelid from pg_attribute where attname = 'service_id' "
        "and attrelid in (select attrelid from pg_attribute where attname = 'notification_type')) "
    )
    table = 'public."' + name.replace('"', '""') + '"'
    live = {**NOTIFY["tables"][0], "table": name}
    source.declare(ft={**NOTIFY, "tables": [live, NOTIFY["tables"][1]]})
    done = source.loader("setup")
    assert done.returncode == 18, done.stderr
    (remedy,) = remedies(done.stderr)
    paste(source.cluster, source.name, remedy)
    source.must("setup")
    wants_full = "may be null" in remedy or "no primary key" in remedy
    identity = source.value(
        "select relreplident::text from pg_class where oid = %s::regclass", table
    )
    assert identity == ("f" if wants_full else "i")


def test_the_cheaper_identity_of_a_large_table(source: Database) -> None:
    source.execute(
        "alter table notifications replica identity default, alter service_id set not null, "
        "alter template_id set not null, alter notification_status set not null"
    )
    source.insert(3)
    source.execute("select pg_stat_force_next_flush()")
    source.execute("update pg_class set reltuples = 2000000 where relname = 'notifications'")
    (remedy,) = remedies(source.loader("setup").stderr)
    assert "replica identity full; -- an index would take about 172.0 MB" in remedy
    paste(source.cluster, source.name, remedy)
    source.must("setup")


def test_a_table_that_is_not_logged(source: Database) -> None:
    source.execute("alter table notifications set unlogged")
    done = source.loader("setup")
    assert done.returncode == 17
    (remedy,) = remedies(done.stderr)
    paste(source.cluster, source.name, remedy)
    source.must("setup")
