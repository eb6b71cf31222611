"""`loader setup` replaces the functions of the staging schema; nothing else works with others."""

from __future__ import annotations

import pytest

from loader.staging import migrate
from testkit.databases import Database
from waltally import session_settings

FORMER = """
create or replace function cdc.batch_size() returns bigint language sql as 'select 1::bigint';
create or replace function cdc.of_the_past(slot text) returns text language sql as 'select slot';
"""


def test_setup_replaces_them_and_until_then_nothing_works(
    source: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = migrate.functions()
    with monkeypatch.context() as former:
        former.setattr(migrate, "functions", lambda: (*known, FORMER))
        source.must("setup")
    assert source.value("select cdc.batch_size()") == 1
    source.execute("grant execute on function cdc.apply(text, pg_lsn, text) to pg_monitor")
    for command in (("run", "--once"), ("status",), ("setup", "--check")):
        said = source.refused_with(20, "are of another version of waltally", *command)
        assert "Try: run `loader setup`" in said, command
    assert "made the functions of schema cdc\n" in source.must("setup")
    assert source.value("select cdc.batch_size()") == 200000
    assert source.value("select to_regprocedure('cdc.of_the_past(text)') is null")
    rights = (
        "select proacl::text from pg_proc where oid = 'cdc.apply(text, pg_lsn, text)'::regprocedure"
    )
    assert "pg_monitor=X" in source.value(rights), "what others were granted stays"
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
        assert len(pins) == 10
        pinned = [f"-c {pin.replace(', ', ',')} " for pin in pins]
        assert all(pin in session_settings.PINS + " " for pin in pinned)
