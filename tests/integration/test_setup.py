"""`loader setup` and `teardown` on real servers, also on those that cannot serve."""

from __future__ import annotations

import re

import pytest

from loader.staging import migrate
from testkit.databases import ARCHIVE, Database, paste
from testkit.model import NOTIFY, Query, counting
from testkit.pipeline import Pipeline
from waltally import session_settings


def test_setup_makes_everything_once_and_teardown_leaves_nothing(source: Database) -> None:
    assert source.loader("setup", "--check").returncode == 20
    assert source.value("select to_regnamespace('cdc') is null"), "a check changes nothing"
    slots = "select count(*) from pg_replication_slots where database = current_database()"
    assert source.value(slots) == 0
    first = source.must("setup")
    assert "applied 0001_tables.sql in schema cdc" in first
    assert f"made the slot {source.slot}" in first
    assert "ft_service_stats is to be made by `dbt build`: fact of public.notification_h" in first
    assert source.must("setup") == "Everything is set up already.\n"
    assert source.must("setup", "--check") == "Everything is set up.\n"
    assert source.loader("teardown").returncode == 1, "it asks, and nobody says yes"
    assert "dropped the slot" in source.must("teardown", "--drop-data", "--yes")
    assert source.value("select to_regnamespace('cdc') is null")
    origins = "select count(*) from pg_replication_origin where roname like %s"
    assert source.value(origins, f"%{source.slot}") == source.value(slots) == 0
    assert "There was nothing to drop" in source.must("teardown", "--yes")


def test_setup_takes_over_a_slot_that_a_migration_made(source: Database) -> None:
    """And refuses one of another plugin."""
    make = "select lsn from pg_create_logical_replication_slot(%s, %s)"
    source.value(make, source.slot, "test_decoding")
    source.refused_with(21, "test_decoding", "setup")
    source.execute("select pg_drop_replication_slot(%s)", source.slot)
    made = source.value(make, source.slot, "wal2json")
    source.insert(3)
    for arguments in (("setup", "--check"), ("setup",)):
        source.refused_with(38, "`loader setup --take-slot`", *arguments)
    assert f"took over the slot {source.slot} at {made}" in source.must("setup", "--take-slot")
    source.must("run", "--once")
    assert source.staged() == 3


def test_deletes_that_were_written_down_come_before_a_renewed_log(source: Database) -> None:
    """Of the same cluster those after its new start did not happen there."""
    source.must("setup")
    insert = "insert into cdc.ignored_delete values (%s, 'a.ft', 'rows', %s, '{a}', '{1}')"
    found = (
        "select commit_lsn < start_lsn from cdc.ignored_delete"
        " inner join cdc.slot_position using (slot_name)"
    )
    source.execute(insert, source.slot, "0/1")
    source.execute(insert, source.slot, "FF/0")
    source.must("setup", "--renew")
    assert source.execute(found) == [(True,)]
    source.execute(insert, source.slot, "FF/0")
    source.execute("update cdc.slot_position set system_identifier = '1'")
    source.execute("select pg_drop_replication_slot(%s)", source.slot)
    source.must("setup", "--renew", "--source-is-gone")
    assert source.execute(found) == [(True,), (True,)]


UNFIT = ("regclass[]", "listed")


def test_types_that_the_seed_would_refuse_are_refused_at_once(source: Database) -> None:
    columns = ", ".join(f'"{type_}" {type_}' for type_ in UNFIT)
    source.execute(
        "create type named as (a int, b regtype); create domain listed as named[];"
        f"create table unfit (id int primary key, cash money, {columns});"
        "alter table unfit replica identity full"
    )
    texts = ", ".join(f'"{name}"::text' for name in ("cash", *UNFIT))
    source.declare(ft=Query(f"select {texts}, count(*) from {{public.unfit}} group by {texts}"))
    code, said = source.refused("setup")
    assert (code, said.count(" with values of type ")) == (17, len(UNFIT)), said
    (remedy,) = re.findall(r"Try: .*?(alter table .*?;)", said)
    paste(source.cluster, source.name, remedy)
    source.must("setup")


def test_whoever_holds_the_slot_up_is_named_and_how_it_ends(source: Database) -> None:
    """A forgotten prepared transaction has no process that could be ended."""
    insert, once = "insert into unrelated (note) values ('open')", ("setup", "--timeout", "1")
    with source.holding(insert) as writer:
        source.refused_with(29, f"pid {writer.info.backend_pid}", *once)
    source.execute(f"begin; {insert}; prepare transaction 'it''s forgotten'")
    open_for = "now prepared transaction 'it''s forgotten' (postgres) open for"
    said = source.refused_with(29, open_for, *once)
    paste(source.cluster, source.name, said.split(f"in database {source.name}: ")[1])
    assert source.value("select count(*) from unrelated") == 1
    assert source.execute("select 1 from pg_prepared_xacts") == []
    source.must("setup")


WRONG = (
    "lacks REPLICATION at the source",
    "The replica identity of public.notifications does not carry key_type",
    "ft_days: a text cast to date can say `today`",
    "ft_largest: max() cannot be taken back row by row",
    "The table public.notification_history does not exist at the source",
    "The target's encoding is LATIN1, which cannot hold every text of a source in UTF8",
)


def test_everything_that_is_wrong_is_said_at_once(source: Database) -> None:
    """The server's, the tables' and the target's findings, each with its remedy."""
    role = f"plain_{source.name}"
    source.execute(
        f"create role {role} login; alter table notifications replica identity nothing;"
        "drop table notification_history"
    )
    latin = "encoding 'latin1' template template0 lc_collate 'C' lc_ctype 'C'"
    source.execute(f"create database {role} owner {role} {latin}")
    days = 'select "to"::date as day, count(*) from {public.notifications} group by 1'
    keys = counting("public.notifications", "key_type")
    largest = Query('select max("to") as "to" from {public.notifications}')
    source.declare(ft_service_stats=NOTIFY, ft_days=Query(days), ft_keys=keys, ft_largest=largest)
    try:
        for arguments in (("setup",), ("setup", "--check")):
            target = {"LOADER_TARGET_DSN": f"dbname={role}"}
            said = source.refused_with(15, "", *arguments, PGUSER=role, **target)
            found = re.findall("^Error: (.*)", said, re.MULTILINE)
            assert all(words in each for words, each in zip(WRONG, found, strict=True)), found
        said = source.refused("setup", PGUSER=role, LOADER_TARGET_DSN="port=1")[1]
        assert (said.count("Error: "), "The target cannot be reached" in said) == (2, True), said
        # No query but a refused one is not said to be none.
        source.declare(ft_largest=largest)
        assert "max() cannot" in source.refused("setup")[1]
    finally:
        source.execute(f"drop database {role}")
        source.execute(f"drop role {role}")


def test_a_publication_for_all_tables_stops_nothing_and_check_finds_a_table_without_identity(
    pipeline: Pipeline,
) -> None:
    run = pipeline.source.execute
    run("create publication everything for all tables")
    pipeline.begin()
    # History's deletes are ignored, so they are written down.
    run(ARCHIVE)
    run("delete from notification_history")
    pipeline.catch_up()
    assert pipeline.target.value("select count(*) from cdc.ignored_delete") > 0
    pipeline.seed()
    pipeline.must_be_exact()
    pipeline.must("setup", "--check")
    run("alter table cdc.ignored_delete replica identity nothing")
    lacks = 'has "cdc"."ignored_delete", which lack a replica identity'
    said = pipeline.refused_with(17, lacks, "setup", "--check")
    paste(pipeline.target.cluster, pipeline.target.name, said.split("Try: ")[1])
    pipeline.must("setup", "--check")
    run("alter table cdc.ignored_delete replica identity nothing")
    run("drop publication everything")
    pipeline.must("setup", "--check")  # nobody publishes it


def test_the_log_has_null_for_nan(source: Database) -> None:
    source.execute(
        "create table amounts (id int primary key, amount numeric, price numeric(8, 2),"
        " rate double precision, whole bigint); alter table amounts replica identity full"
    )
    sums = {"amounts": "sum(amount)", "prices": "sum(price)", "ids": "sum(id)"}
    source.declare(
        ft_amounts=counting("public.amounts", **sums),
        amount_rows=Query("select id, rate from {public.amounts}"),
    )
    source.must("setup")
    assert source.must("setup") == "Everything is set up already.\n"
    source.execute(
        "insert into amounts values (1, 'NaN', 'NaN', 'Infinity', 1), (2, '-Infinity', 5, 2.5, 1)"
    )
    source.must("run", "--once")
    values = "array(select c ->> 'value' from json_array_elements(payload::json -> 'columns') as c)"
    stored = source.execute(f"select {values} from cdc.change_log order by ordinal")
    assert stored == [(["1", None, None, None, "1"],), (["2", None, "5.00", "2.5", "1"],)]


def test_setup_replaces_them_and_until_then_nothing_works(
    source: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    known, make = migrate.functions(), "create or replace function cdc."
    former = (
        f"{make}batch_size() returns bigint language sql as 'select 1::bigint';"
        f"{make}of_the_past(slot text) returns text language sql as 'select slot';"
    )
    with monkeypatch.context() as patch:
        patch.setattr(migrate, "functions", lambda: (*known, former))
        source.must("setup")
    assert source.value("select cdc.batch_size()") == 1
    source.execute("grant execute on function cdc.apply(text, pg_lsn, text) to pg_monitor")
    for command in (("run", "--once"), ("status",), ("setup", "--check")):
        said = source.refused_with(20, "are of another version of waltally", *command)
        assert "Try: run `loader setup`" in said, command
    assert "made the functions of schema cdc\n" in source.must("setup")
    assert source.value("select cdc.batch_size()") == 200000
    assert source.value("select to_regprocedure('cdc.of_the_past(text)') is null")
    right = (
        "select has_function_privilege('pg_monitor', 'cdc.apply(text, pg_lsn, text)', 'execute')"
    )
    assert source.value(right), "what others were granted stays"
    assert source.must("setup") == "Everything is set up already.\n"
    source.insert(2)
    source.must("run", "--once")
    assert source.staged() == 2
    assert "dropped the schema cdc" in source.must("teardown", "--drop-data", "--yes")


def test_apply_pins_what_every_session_pins(source: Database) -> None:
    """Whoever calls it; also where the role that made it has settings of its own."""
    source.execute("alter role postgres set TimeZone = 'Asia/Tokyo'")
    try:
        source.must("setup")
    finally:
        source.execute("alter role postgres reset TimeZone")
    query = "select proconfig from pg_proc where proname in ('apply', 'apply_computed')"
    for (pins,) in source.execute(query):
        assert len(pins) == 11
        pinned = [f"-c {pin.replace(', ', ',')} " for pin in pins]
        assert all(pin in session_settings.PINS + " " for pin in pinned)
