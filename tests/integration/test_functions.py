"""`loader setup` replaces the functions of the staging schema; nothing else works with others."""

from __future__ import annotations

import pytest

from loader.staging import migrate
from testkit.databases import Database
from waltally import session_settings

FORMER = """
create or replace function cdc.slice_size() returns bigint language sql as 'select 1::bigint';
create or replace function cdc.of_the_past(slot text) returns text language sql as 'select slot';
"""


@pytest.fixture
def upgraded(source: Database, monkeypatch: pytest.MonkeyPatch) -> Database:
    """A database that another version has set up."""
    known = migrate.functions()
    with monkeypatch.context() as former:
        former.setattr(migrate, "functions", lambda: [*known, FORMER])
        source.must("setup")
    assert source.value("select cdc.slice_size()") == 1
    return source


def test_functions_of_another_version_are_refused(upgraded: Database) -> None:
    for command in (("run", "--once"), ("status",), ("setup", "--check")):
        done = upgraded.loader(*command)
        assert done.returncode == 20, command
        assert "are of another version of waltally" in done.stderr, command
        assert "Try: run `loader setup`" in done.stderr, command


def test_setup_replaces_them_and_drops_what_is_in_no_file(upgraded: Database) -> None:
    assert "made the functions of schema cdc\n" in upgraded.must("setup")
    assert upgraded.value("select cdc.slice_size()") == 200000
    assert upgraded.value("select to_regprocedure('cdc.of_the_past(text)') is null")
    assert upgraded.must("setup") == "Everything is set up already.\n"
    upgraded.insert(2)
    upgraded.must("run", "--once")
    assert upgraded.staged() == 2
    assert "dropped the schema cdc" in upgraded.must("teardown", "--drop-data", "--yes")


def test_replacing_keeps_the_rights_that_others_were_granted(upgraded: Database) -> None:
    query = "select proacl::text from pg_proc where oid = 'cdc.apply(text, text)'::regprocedure"
    upgraded.execute("grant execute on function cdc.apply(text, text) to pg_monitor")
    granted = upgraded.value(query)
    upgraded.must("setup")
    assert upgraded.value(query) == granted
    assert "pg_monitor=X" in granted


@pytest.mark.parametrize("function", ["apply", "apply_computed"])
def test_apply_pins_what_every_session_pins(source: Database, function: str) -> None:
    """Whoever calls it; also where the role that made it has settings of its own."""
    source.execute("alter role postgres set TimeZone = 'Asia/Tokyo'")
    try:
        source.must("setup")
    finally:
        source.execute("alter role postgres reset TimeZone")
    pins = source.value(f"select proconfig from pg_proc where oid = 'cdc.{function}'::regproc")
    assert len(pins) == 10
    assert not [
        pin for pin in pins if f"-c {pin.replace(', ', ',')} " not in session_settings.PINS + " "
    ]
