"""Queries of public applications: kept, and the same on random rows, or refused."""

from __future__ import annotations

from contextlib import suppress
from random import Random
from typing import Any

import psycopg2
import pytest

from testkit.databases import Database
from tests.proposing.support import proposed
from tests.queries.test_corpus import CASES, Application, _read
from waltally.errors import LoaderError, SettingError

REFUSED = {
    "006-notify-allowance-of-a-service": "A window over rows needs each of them",
    "050-sentry-resolution-time": "adds up values of type interval",
    "074-zulip-active-accounts": "DISTINCT ON takes one row of several",
    "106-lago-recurring-revenue": "a text cast to timestamp",
}
"""The queries that are not kept, with words of the reason."""


class Tables:
    """The tables of an application in schema lab: what Application asks of a lab."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.sources: dict[str, Any] = {}
        database.execute("drop schema if exists lab cascade; create schema lab")

    def execute(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        return [] if "cdc.change_log" in query else self.database.execute(query, *values)

    def follow(self, table: str, has_old_rows: bool) -> None:
        """Nobody follows them here."""

    def transact(self, *statements: str) -> None:
        for statement in statements:
            with suppress(psycopg2.IntegrityError, psycopg2.errors.CardinalityViolation):
                self.database.execute(statement)


@pytest.mark.parametrize("name", CASES)
def test_a_query_of_an_application_is_kept_or_refused_for_its_reason(
    database: Database, name: str
) -> None:
    case = _read(name)
    tables: Any = Tables(database)
    application = Application(tables, case, Random(name))
    application.begin()
    for _ in range(300):
        application.change()
        database.execute("set search_path = lab")
        found = database.execute(case.query)
        database.execute("set search_path = public")
        if any(value for row in found for value in row):
            break
    try:
        made = proposed(database, case.query)
    except LoaderError as error:
        assert REFUSED[name] in str(error)
        assert error.remedy
    else:
        assert name not in REFUSED
        assert any("missing 0, surplus 0" in line for line in made.lines)


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        (
            # Mastodon: the usual language of the last twenty posts of an account
            "select a.id, mode() within group (order by l.language) from accounts as a cross join"
            " lateral (select p.language from posts as p where p.account_id = a.id order by p.id"
            " desc limit 20) as l group by a.id",
            "LIMIT in a sub-select takes some rows by their order",
        ),
        ("select id, language from posts", "each row is needed"),
        ("select count(*) from secret", "row security"),
        ("select sum(twice(account_id)) from posts", "a function of a user"),
        ("select count(*) from kept_posts", "a materialized view"),
        ("select count(*) from theirs", "another's view"),
        ("select upper(language), count(*) from posts group by 1", "may be lab.upper"),
        ("select account_id + id, count(*) from posts group by 1", "an operator of a user"),
        ("select count(*) from posts where id operator(lab.+) 1 > 2", "an operator of a user"),
        ("select count(*) from posts where language::lab.tongue = 'x'", "a type of a user"),
        ("select count(*) from posts where tag = 'x' /* :tag */", "a type that is not built in"),
        (
            "select percentile_disc(array[0.1, 0.9]) within group (order by id) from posts",
            "is several values",
        ),
        ("select count(*) from posts where random() < 0.5", "another value at each call"),
        ("select language, count(*) from posts group by rollup (language)", "Grouping sets"),
        ("with recursive r as (select 1 as n) select count(*) from r", "recursive"),
        ("select string_agg(language, ',' order by id) from posts", "needs each row"),
        ("select count(*) from nowhere", "no table nowhere"),
        ("delete from posts", "something beside SELECT"),
        ("selec 1", "no SQL"),
    ],
)
def test_what_is_not_kept_is_refused_with_its_reason(
    database: Database, query: str, reason: str
) -> None:
    database.execute(
        "drop schema if exists lab cascade; create schema lab; set search_path = lab;"
        "create table accounts (id bigint primary key);"
        "create domain tongue as text check (value <> ''); create extension if not exists citext;"
        "create table posts (id bigint primary key, account_id bigint, language text, tag citext);"
        "create table secret (id bigint primary key); alter table secret enable row level security;"
        "create materialized view kept_posts as select * from posts;"
        "create view theirs as select id from posts; alter view theirs owner to pg_monitor;"
        "create function upper(varchar) returns text immutable language sql as 'select $1';"
        "create function less(text, text) returns text immutable language sql as 'select $1';"
        "create operator + (function = less, leftarg = text, rightarg = text);"
        "create function twice(bigint) returns bigint immutable language sql as 'select 2 * $1'"
    )
    with pytest.raises(LoaderError) as refused:
        proposed(database, query)
    assert reason in str(refused.value)
    assert refused.value.remedy


def test_a_query_without_a_row_proves_nothing(database: Database) -> None:
    database.execute("drop schema if exists lab cascade; create schema lab")
    database.execute("create table lab.empty (id bigint primary key, kind text)")
    with pytest.raises(SettingError, match="proves nothing"):
        proposed(database, "select kind, count(*) from empty group by kind")
    proposed(database, "select kind, count(*) from empty group by kind", prove="none")
