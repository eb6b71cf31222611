"""`loader setup` and `teardown` on real servers, also on those that cannot serve."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import psycopg2
import pytest

from loader.capture.protocol import ProtocolError, protocol_error
from testkit.commands import LOADER, run, wait_until
from testkit.databases import Database, application_database, paste
from testkit.facts import NOTIFY, manifest_of
from testkit.pipeline import Pipeline
from testkit.servers import Cluster, Server, administer, connect
from testkit.standbys import before_16


@pytest.fixture(scope="module")
def small() -> Iterator[Cluster]:
    """A server whose only slot is taken."""
    with Server({"fsync": "off", "max_replication_slots": "1"}) as made:
        connect(made.dsn()).cursor().execute("select pg_create_physical_replication_slot('taken')")
        yield made


def refusal(database: Database, *arguments: str, findings: int = 1) -> tuple[int, str]:
    done = database.loader(*(arguments or ("setup",)))
    assert "Traceback" not in done.stderr
    assert done.stderr.count("Error: ") == findings
    assert done.stderr.count("\nTry: ") == findings
    return done.returncode, done.stderr


def test_setup_makes_everything_and_then_nothing(source: Database) -> None:
    assert source.loader("setup", "--check").returncode == 20
    first = source.must("setup")
    assert "applied 0001_tables.sql in schema cdc" in first
    assert f"made the slot {source.slot}" in first
    assert "registered ft_service_stats\n" in first
    assert source.must("setup") == "Everything is set up already.\n"
    assert source.must("setup", "--check") == "Everything is set up.\n"
    tables = source.execute("select tablename from pg_tables where schemaname = 'cdc'")
    assert {name for (name,) in tables} >= {
        "change_log",
        "slot_position",
        "logged_table",
        "model_watermark",
        "baseline_group",
        "fact",
    }


def test_check_changes_nothing(source: Database) -> None:
    source.loader("setup", "--check")
    assert source.value("select count(*) from pg_namespace where nspname = 'cdc'") == 0
    slots = "select count(*) from pg_replication_slots where database = current_database()"
    assert source.value(slots) == 0


def test_setup_takes_over_a_slot_that_a_migration_made(source: Database) -> None:
    made = source.value(
        "select lsn from pg_create_logical_replication_slot(%s, 'wal2json')", source.slot
    )
    source.insert(3)
    assert f"took over the slot {source.slot} at {made}" in source.must("setup")
    source.must("run", "--once")
    assert source.staged() == 3


def test_deletes_that_were_written_down_come_before_a_renewed_log(source: Database) -> None:
    """Of the same cluster those after its new start did not happen there."""
    source.must("setup")
    insert = "insert into cdc.archived_delete values (%s, 'a.ft', 'rows', %s, '{a}', '{1}')"
    found = (
        "select commit_lsn < start_lsn from cdc.archived_delete"
        " inner join cdc.slot_position using (slot_name)"
    )
    source.execute(insert, source.slot, "0/1")
    source.execute(insert, source.slot, "FF/0")
    source.must("setup", "--renew")
    assert source.execute(found) == [(True,)]
    source.execute(insert, source.slot, "FF/0")
    source.execute("update cdc.slot_position set system_identifier = '1'")
    source.execute("select pg_drop_replication_slot(%s)", source.slot)
    source.must("setup", "--renew")
    assert source.execute(found) == [(True,), (True,)]


def test_a_slot_of_another_plugin_is_refused(source: Database) -> None:
    source.execute("select pg_create_logical_replication_slot(%s, 'test_decoding')", source.slot)
    code, said = refusal(source)
    assert code == 22
    assert "test_decoding" in said


def test_a_missing_table_is_refused(database: Database) -> None:
    code, said = refusal(database, findings=2)
    assert code == 17
    assert "public.notifications does not exist" in said
    assert "public.notification_history does not exist" in said


def test_a_narrow_identity_is_refused_with_sql_that_mends_it(source: Database) -> None:
    source.execute(
        "alter table notifications replica identity default;"
        "alter table notification_history alter service_id set not null,"
        "alter template_id set not null, alter notification_status set not null,"
        "replica identity default"
    )
    code, said = refusal(source, findings=2)
    assert code == 18
    for remedy in re.findall("Try: (.*)", said):
        for statement in remedy.partition("--")[0].strip().split("; "):
            source.execute(statement)
    source.must("setup")


@pytest.mark.parametrize("type_", ["money", "regclass[]", "listed", "aclitem", "moneys"])
def test_a_type_that_the_seed_would_refuse_is_refused_at_once(source: Database, type_: str) -> None:
    source.execute(
        "create type named as (a int, b regtype); create domain listed as named[];"
        "create type moneys as range (subtype = money)"
    )
    unfit = (
        "alter table notifications drop notification_status, "
        f"add notification_status {type_}, replica identity full"
    )
    source.execute(unfit)
    for arguments in (("setup",), ("setup", "--check")):
        done = source.loader(*arguments)
        assert done.returncode == 17, done.stderr
        assert "column notification_status with values of type" in done.stderr
    (remedy,) = re.findall(r"Try: (alter .*?;)", done.stderr)
    paste(source.cluster, source.name, remedy)
    source.must("setup")
    source.execute(unfit)
    said = " ".join(source.loader("status").stdout.split())
    assert "column notification_status with values of type" in said


def test_a_table_from_which_others_inherit_is_refused(source: Database) -> None:
    """A query counts their rows too, and no change of them has the table's name."""
    source.must("setup")
    source.execute('create table "Heir, 100%" () inherits (notifications)')
    for arguments in (("setup",), ("setup", "--check")):
        done = source.loader(*arguments)
        assert done.returncode == 17, done.stderr
        assert 'counts the rows of public."Heir, 100%"' in " ".join(done.stderr.split())
    assert "which inherit from it" in " ".join(source.loader("status").stdout.split())
    (remedy,) = re.findall(r"Try: (alter .*?;)", done.stderr)
    paste(source.cluster, source.name, remedy)
    source.must("setup")


def hide_plugin(source: Database) -> None:
    """Let the server find no library but PL/pgSQL, which it also finds by this path from 18 on."""
    folder = source.cluster.home / "libraries"
    folder.mkdir(exist_ok=True)
    installed = Path(source.cluster.run("pg_config", "--pkglibdir").strip())
    if not (folder / "plpgsql.so").exists():
        (folder / "plpgsql.so").symlink_to(installed / "plpgsql.so")
    source.execute(f"alter database {source.name} set dynamic_library_path = '{folder}'")


def major_version(source: Database) -> int:
    return int(source.value("show server_version_num")) // 10_000


def test_a_virtual_column_is_refused(source: Database) -> None:
    """PostgreSQL 18 computes it when it is read, and the plugin sends a null."""
    if major_version(source) < 18:
        pytest.skip("virtual generated columns came with PostgreSQL 18")
    source.execute(
        "alter table notifications drop notification_status, add raw text default 'SENT', "
        "add notification_status text generated always as (lower(raw)) virtual not null, "
        "replica identity full"
    )
    done = source.loader("setup")
    assert done.returncode == 17, done.stderr
    assert "notification_status as a virtual generated column" in " ".join(done.stderr.split())
    (remedy,) = re.findall(r"Try: (alter .*?;)", done.stderr)
    paste(source.cluster, source.name, remedy)
    source.must("setup")


def test_a_plugin_that_is_not_installed_is_refused(source: Database) -> None:
    hide_plugin(source)
    for arguments in (("setup",), ("setup", "--check")):
        code, said = refusal(source, *arguments)
        assert code == 12
        assert f"postgresql-{major_version(source)}-wal2json" in said


def test_a_plugin_that_is_gone_is_named_with_the_server_s_version(source: Database) -> None:
    source.must("setup")
    hide_plugin(source)
    done = source.loader("run", "--once")
    assert done.returncode == 12
    assert f"apt-get install postgresql-{major_version(source)}-wal2json" in done.stderr
    gone = ProtocolError('could not access file "wal2json"', "58P01", 17)
    assert "apt-get install postgresql-17-wal2json" in protocol_error(gone, "any").remedy


def test_setups_of_one_slot_s_name_in_two_schemas_do_not_wait_for_each_other(
    source: Database,
) -> None:
    """As of two sources with a warehouse in common; here the second meets the first one's slot."""
    writer = psycopg2.connect(source.cluster.dsn(source.name))
    writer.cursor().execute("insert into unrelated (note) values ('open')")
    first = source.start_loader("setup", "--timeout", "600")
    try:
        making = (
            "select count(*) from pg_stat_activity "
            "where query ~ 'pg_create_logical_replication_slot' and pid <> pg_backend_pid()"
        )
        wait_until(lambda: source.value(making) == 1, "the first waits for the writer")
        second = source.start_loader("setup", LOADER_SCHEMA="second")
        try:
            wait_until(lambda: second.poll() is not None, "the second does not wait")
            assert second.returncode == 24
            assert first.poll() is None
        finally:
            second.kill()
            second.communicate()
    finally:
        writer.close()
        _, said = first.communicate(timeout=120)
    assert first.returncode == 0, said


def test_a_role_without_replication_is_refused(source: Database) -> None:
    role = f"plain_{source.name}"
    source.execute(f"create role {role} login")
    try:
        done = source.loader("setup", PGUSER=role)
        assert done.returncode == 15
        assert f'alter role "{role}" replication' in done.stderr
    finally:
        source.execute(f"drop role {role}")


def test_a_writer_that_blocks_the_slot_is_named(source: Database) -> None:
    writer = psycopg2.connect(source.cluster.dsn(source.name))
    writer.cursor().execute("insert into unrelated (note) values ('open')")
    code, said = refusal(source, "setup", "--timeout", "1")
    assert code == 19
    assert f"pid {writer.info.backend_pid}" in said
    writer.commit()
    writer.close()
    source.must("setup")


def test_a_forgotten_prepared_transaction_is_named_with_its_ends(source: Database) -> None:
    """It has no process that could be ended."""
    source.execute(
        "begin; insert into unrelated (note) values ('open'); prepare transaction 'it''s forgotten'"
    )
    code, said = refusal(source, "setup", "--timeout", "1")
    assert code == 19
    assert "now prepared transaction 'it''s forgotten' (postgres) open for" in said
    statements = said.split(f"in database {source.name}: ")[1]
    paste(source.cluster, source.name, statements)
    assert source.value("select count(*) from unrelated") == 1
    assert source.execute("select from pg_prepared_xacts") == []
    source.must("setup")


def test_a_server_without_a_free_slot_is_refused(small: Cluster) -> None:
    with small_database(small) as database:
        code, said = refusal(database)
        assert code == 14
        assert "max_replication_slots = 6" in said


def test_a_wal_level_too_low_is_refused() -> None:
    with (
        Server({"fsync": "off", "wal_level": "replica"}) as made,
        small_database(made) as database,
    ):
        code, said = refusal(database)
    assert code == 11
    assert "alter system set wal_level = 'logical'" in said


@before_16
def test_a_standby_is_refused(small: Cluster) -> None:
    standby = Cluster()
    small.run(
        "pg_basebackup", "-D", str(standby.data), "-d", small.dsn(), "-R", "--no-slot", "-c", "fast"
    )
    standby.configure({})
    try:
        standby.start()
        manifest = manifest_of({"ft_service_stats": NOTIFY})
        environment = {**standby.environment(), "LOADER_MANIFEST": str(manifest)}
        done = run([str(LOADER), "setup"], environment)
    finally:
        standby.remove()
    assert done.returncode == 16
    assert "primary" in done.stderr


def test_a_plugin_that_the_server_does_not_allow_is_refused() -> None:
    cluster = Server({"fsync": "off"})
    try:
        cluster.create()
        if not cluster.knows("output_plugin_libraries"):
            pytest.skip("this minor release has no output_plugin_libraries")
        cluster.configure({"output_plugin_libraries": "'pgoutput'"})
        cluster.start()
        with small_database(cluster) as database:
            for arguments in (("setup",), ("setup", "--check")):
                code, said = refusal(database, *arguments)
                assert code == 13
                assert "output_plugin_libraries" in said
    finally:
        cluster.remove()


def test_everything_that_is_wrong_is_said_at_once(source: Database) -> None:
    """The server's, the tables' and the target's findings, each with its remedy."""
    role = f"plain_{source.name}"
    source.execute(
        f"create role {role} login; alter table notifications replica identity nothing;"
        "drop table notification_history"
    )
    source.execute(
        f"create database {role} encoding 'latin1' template template0 lc_collate 'C' lc_ctype 'C'"
    )
    try:
        for arguments in (("setup",), ("setup", "--check")):
            done = source.loader(*arguments, PGUSER=role, LOADER_TARGET_DSN=f"dbname={role}")
            assert done.returncode == 15
            assert re.findall("^Error: (.*)", done.stderr, re.MULTILINE) == [
                f"The role {role} lacks REPLICATION at the source",
                "The replica identity of public.notifications does not carry service_id, "
                "template_id, notification_type, notification_status: deletes and moves between "
                "groups could not be counted",
                "The table public.notification_history does not exist at the source",
                "The target's encoding is LATIN1, which cannot hold every text of a source in UTF8",
            ]
            assert done.stderr.count("\nTry: ") == 4
        done = source.loader("setup", PGUSER=role, LOADER_TARGET_DSN="port=1")
        assert done.stderr.count("Error: ") == 4
        assert "The target cannot be reached" in done.stderr
    finally:
        source.execute(f"drop database {role}")
        source.execute(f"drop role {role}")


def test_a_wrong_password_is_one_sentence_without_the_password(cluster: Cluster) -> None:
    dsn = cluster.dsn("nowhere", password="hunter2")
    done = run([str(LOADER), "setup"], {**os.environ, "LOADER_SOURCE_DSN": dsn})
    assert done.returncode == 10
    assert "hunter2" not in done.stderr + done.stdout
    assert 'database "nowhere" does not exist' in done.stderr


def test_a_server_that_is_not_there_is_one_sentence() -> None:
    done = run([str(LOADER), "run", "--once", "--source", "host=127.0.0.1 port=1"])
    assert done.returncode == 10
    assert "cannot be reached" in done.stderr


def test_teardown_leaves_nothing(source: Database) -> None:
    source.must("setup")
    assert source.loader("teardown").returncode == 1, "it asks, and nobody says yes"
    assert "dropped the slot" in source.must("teardown", "--purge", "--yes")
    assert source.value("select count(*) from pg_namespace where nspname = 'cdc'") == 0
    origins = "select count(*) from pg_replication_origin where roname like %s"
    assert source.value(origins, f"%{source.slot}") == 0
    assert source.must("teardown", "--yes") == "There was nothing to drop.\n"


def test_teardown_leaves_nothing_of_installed_models_but_their_tables(pipeline: Pipeline) -> None:
    pipeline.begin()
    pipeline.must("teardown", "--purge", "--yes")
    assert pipeline.target.value("select to_regnamespace('cdc')") is None
    functions = "select count(*) from pg_proc where pronamespace = 'analytics'::regnamespace"
    assert pipeline.target.value(functions) == 0
    assert pipeline.target.value("select count(*) from analytics.ft_service_stats") > 0
    pipeline.must("setup")


def small_database(cluster: Cluster) -> Database:
    administer(cluster, "drop database if exists here with (force)")
    return application_database(cluster, "here")
