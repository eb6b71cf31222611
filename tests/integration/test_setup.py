"""`loader setup` and `teardown` on real servers, also on those that cannot serve."""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path

import psycopg2
import pytest

from loader.capture.protocol import ProtocolError, protocol_error
from loader.setup.declared import Declared
from loader.setup.setup import missing_measures
from testkit.commands import ROOT, run_loader
from testkit.databases import Database, paste
from testkit.facts import NOTIFY, declare, manifest_of
from testkit.standbys import Family, before_16
from waltally.database import connect
from waltally.facts import parse
from waltally.tables import Table


def test_setup_makes_everything_once_and_teardown_leaves_nothing(source: Database) -> None:
    assert source.loader("setup", "--check").returncode == 20
    assert source.value("select to_regnamespace('cdc') is null"), "a check changes nothing"
    slots = "select count(*) from pg_replication_slots where database = current_database()"
    assert source.value(slots) == 0
    first = source.must("setup")
    assert "applied 0001_tables.sql in schema cdc" in first
    assert f"made the slot {source.slot}" in first
    assert "registered ft_service_stats\n" in first
    assert source.must("setup") == "Everything is set up already.\n"
    assert source.must("setup", "--check") == "Everything is set up.\n"
    assert source.loader("teardown").returncode == 1, "it asks, and nobody says yes"
    assert "dropped the slot" in source.must("teardown", "--drop-data", "--yes")
    assert source.value("select to_regnamespace('cdc') is null")
    origins = "select count(*) from pg_replication_origin where roname like %s"
    assert source.value(origins, f"%{source.slot}") == source.value(slots) == 0
    assert source.must("teardown", "--yes") == "There was nothing to drop.\n"


def test_setup_takes_over_a_slot_that_a_migration_made(source: Database) -> None:
    """And refuses one of another plugin."""
    make = "select lsn from pg_create_logical_replication_slot(%s, %s)"
    source.value(make, source.slot, "test_decoding")
    code, said = source.refused("setup")
    assert (code, "test_decoding" in said) == (22, True)
    source.execute("select pg_drop_replication_slot(%s)", source.slot)
    made = source.value(make, source.slot, "wal2json")
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


UNFIT = ("money", "regclass[]", "listed", "aclitem", "moneys")


def test_types_that_the_seed_would_refuse_are_refused_at_once(source: Database) -> None:
    source.execute(
        "create type named as (a int, b regtype); create domain listed as named[];"
        "create type moneys as range (subtype = money)"
    )
    for number, type_ in enumerate(UNFIT):
        source.execute(
            f"create table unfit_{number} (id int primary key, kind {type_} not null);"
            f"alter table unfit_{number} replica identity full"
        )
    source.declare(
        **{f"ft_{n}": declare(f"public.unfit_{n}", ("kind", "text")) for n in range(len(UNFIT))}
    )
    for arguments in (("setup",), ("setup", "--check")):
        code, said = source.refused(*arguments)
        assert code == 17
        assert said.count("column kind with values of type") == len(UNFIT)
    for remedy in re.findall(r"Try: (alter .*?;)", said):
        paste(source.cluster, source.name, remedy)
    source.must("setup")
    source.execute("alter table unfit_0 alter kind type money using null")
    said = " ".join(source.loader("status").stdout.split())
    assert "column kind with values of type" in said


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


def test_a_plugin_that_is_gone_is_named_with_the_server_s_version(source: Database) -> None:
    source.must("setup")
    hide_plugin(source)
    for command in (("run", "--once"), ("setup", "--renew")):
        done = source.loader(*command)
        assert done.returncode == 12
    assert f"apt-get install postgresql-{major_version(source)}-wal2json" in done.stderr
    gone = ProtocolError('could not access file "wal2json"', "58P01", 17)
    assert "apt-get install postgresql-17-wal2json" in protocol_error(gone, "any").remedy


def test_whoever_holds_the_slot_up_is_named_and_how_it_ends(source: Database) -> None:
    """A forgotten prepared transaction has no process that could be ended."""
    writer = psycopg2.connect(source.cluster.dsn(source.name))
    writer.cursor().execute("insert into unrelated (note) values ('open')")
    code, said = source.refused("setup", "--timeout", "1")
    assert code == 19
    assert f"pid {writer.info.backend_pid}" in said
    writer.rollback()
    writer.close()
    source.execute(
        "begin; insert into unrelated (note) values ('open'); prepare transaction 'it''s forgotten'"
    )
    code, said = source.refused("setup", "--timeout", "1")
    assert code == 19
    assert "now prepared transaction 'it''s forgotten' (postgres) open for" in said
    statements = said.split(f"in database {source.name}: ")[1]
    paste(source.cluster, source.name, statements)
    assert source.value("select count(*) from unrelated") == 1
    assert source.execute("select 1 from pg_prepared_xacts") == []
    source.must("setup")


@before_16
def test_a_standby_is_refused(family: Family) -> None:
    standby = family.standby({})
    manifest = manifest_of({"ft_service_stats": NOTIFY})
    done = run_loader(("setup",), {**standby.environment(), "LOADER_MANIFEST": str(manifest)})
    assert done.returncode == 16
    assert "primary" in done.stderr


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


def migrations() -> list[str]:
    """The statements of the page's section."""
    section = (ROOT / "docs" / "source.md").read_text().partition("### As migrations")[2]
    block = re.search(r"```sql\n(.*?)```", section, re.DOTALL)
    assert block is not None
    return [statement for statement in block[1].split(";\n") if statement.strip()]


def test_the_migrations_of_the_page_are_what_setup_asks_for(source: Database) -> None:
    source.execute("alter table notifications replica identity default")
    unfit = source.loader("setup", "--check")
    assert unfit.returncode == 18
    assert "public.notifications" in unfit.stderr

    for statement in migrations():
        source.execute(statement)
    fit = source.loader("setup", "--check")
    assert (fit.returncode, fit.stderr.count("Error: ")) == (20, 1), fit.stderr
    assert "is not set up yet" in fit.stderr

    source.must("setup")
    source.insert(1)
    source.execute("delete from notifications")
    source.must("run", "--once")
    old = source.value("select payload::jsonb ->> 'identity' from cdc.change_log where action='D'")
    for column in ("service_id", "template_id", "notification_type", "notification_status"):
        assert column in old


def test_a_derived_column_of_a_measure_that_is_not_there_is_said(database: Database) -> None:
    """Any other error of an expression is what dbt says: it has other rights and another path."""
    fact = parse("ft_n", Table("analytics", "ft_n"), declare("public.n", ("id", "uuid")))
    right = {"twice": "row_count * 2", "text": "'a -- ' || row_count", "theirs": "own.f(row_count)"}
    for expressions, expected in ((right, []), ({**right, "wrong": "rows / 2"}, ["wrong"])):
        declared = Declared("mine", (fact,), derived={"ft_n": expressions})
        with closing(connect(database.cluster.dsn(database.name), "target")) as target:
            found = missing_measures(declared, target)
        assert [column for _, column in found] == expected
        assert all('column "rows" does not exist' in why for why in found.values())
