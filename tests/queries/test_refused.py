"""What the contract refuses, each with what to write instead; and what looks alike and is taken."""

from __future__ import annotations

import json
from typing import Any

import psycopg2
import pytest

from tests.queries.cases import cases
from tests.queries.lab import Lab

BERLIN = {"timezone": "Europe/Berlin"}


def first_words(text: str) -> str:
    """Return what names a case."""
    return " ".join(text.split())[:70]


REFUSED, TAKEN = cases("refused"), cases("taken")


@pytest.fixture(scope="module", autouse=True)
def own(lab: Lab) -> None:
    lab.execute(
        "create function lab.mine(integer) returns integer language sql immutable as 'select $1';"
        "create function lab.plus(integer, integer) returns integer language sql immutable as "
        "'select 1';"
        "create operator lab.@@@ (function = lab.plus, leftarg = integer, rightarg = integer);"
        "create collation lab.loose (provider = icu, locale = 'und-u-ks-level2', "
        "deterministic = false); create collation lab.strict (provider = icu, locale = 'de');"
        "create type lab.word as enum ('now', 'pay now', 'today');"
        "create table lab.words (id bigint primary key, word lab.word, mood lab.mood,"
        " mail varchar(9) collate lab.loose);"
        "create table lab.two (id bigint primary key, n integer);"
        "create table lab.waltally_odd (pg_temp integer, pg_temp_3 text, waltally_rows integer)"
    )
    for name in ("words", "two", "waltally_odd"):
        lab.read_shape(name)


@pytest.mark.parametrize(("reason", "remedy", "query"), REFUSED, ids=first_words)
def test_query_is_refused_with_what_to_write(
    lab: Lab, reason: str, remedy: str, query: str
) -> None:
    with pytest.raises(psycopg2.Error) as refused:
        lab.compile(query)
    diag, code = refused.value.diag, str(refused.value.pgcode)
    assert code == "WL003" or code[:2] in ("42", "22", "0A")
    # It has words of its own for what it does not understand.
    if reason == "PostgreSQL says it":
        assert code != "WL003", diag.message_primary
    else:
        assert reason in str(diag.message_primary)
        assert remedy.lower() in (diag.message_hint or "").lower()


OPTIONS: list[tuple[dict[str, Any], str, str]] = [
    ({"unique_key": ["n"]}, "unique_key is not", "'flag'"),
    ({"unique_key": ["flag", "n"]}, "unique_key is not", "'flag'"),
    ({"timezone": "Mars/Base"}, "", ""),
    # West of Greenwich for PostgreSQL, east of it for Spark and Python.
    ({"timezone": "UTC+3"}, "none of the server's", "pg_timezone_names"),
    ({"ignore_deletes": ["lab.b"]}, "ignore_deletes", "lab.a"),
    ({"surrogate_key": "flag"}, "surrogate_key", "another name"),
    ({"surrogate_key": "waltally_rows"}, "surrogate_key", "another name"),
]


@pytest.mark.parametrize(("options", "reason", "remedy"), OPTIONS, ids=str)
def test_config_is_refused_with_what_to_write(
    lab: Lab, options: dict[str, Any], reason: str, remedy: str
) -> None:
    with pytest.raises(psycopg2.Error) as refused:
        lab.compile("select flag, count(*) as count from {a} group by 1", **options)
    assert reason in str(refused.value.diag.message_primary)
    assert remedy in (refused.value.diag.message_hint or "")


def test_a_surrogate_key_is_of_values_whose_equal_ones_are_spelled_alike(lab: Lab) -> None:
    query = "select span, amount, count(*) from {a} group by 1, 2"
    with pytest.raises(psycopg2.Error, match="span: a surrogate key of values of interval"):
        lab.compile(query, surrogate_key="id")
    assert lab.compile(query.replace("span", "span::text", 1), surrogate_key="id")


@pytest.mark.parametrize(("claim", "config", "query"), TAKEN, ids=first_words)
def test_query_that_looks_like_a_refused_one_is_taken(
    lab: Lab, claim: str, config: str, query: str
) -> None:
    assert lab.compile(query, **json.loads(config or "{}"))["kind"] == "fact"


NEWER: list[tuple[int, str, str]] = [
    # Since which version PostgreSQL knows it, the query, and a part of the reason.
    (16, "select json_array(n, name)::text as x, count(*) from {a} group by 1", "JSON_VALUE"),
    (16, "select doc is json object as x, count(*) from {a} group by 1", "IS JSON"),
    (16, "select any_value(n) as x from {a}", "any_value() depends on the order of rows"),
    (16, "select date_add(at, '1 day') as x, count(*) from {a} group by 1", "date_add"),
    (17, "select json_value(doc, '$.k') as x, count(*) from {a} group by 1", "JSON_VALUE"),
    (17, "select j.x, count(*) from {a}, json_table(doc, '$' columns (x int path '$')) as j group by 1", "FROM item"),
    (17, "select seen at local as x, count(*) from {a} group by 1", "AT LOCAL"),
    (17, "select random(1, 10) as x, count(*) from {a} group by 1", "another value"),
    (18, "select (array_sort(moods))[1]::text as x, count(*) from {a} group by 1", "the order of an enum"),
    (18, "select (select max(row(m)) from unnest(moods) as m) is null as x, count(*) from {a} group by 1", "order of rows"),
    (18, "select uuidv7() as x, count(*) from {a} group by 1", "another value"),
    (16, "select date_subtract(at, '1 day', 'Europe/Berlin') as x, count(*) from {a} group by 1", ""),
    (17, "select at at local as x, count(*) from {a} where date_add(at, '1 day') > seen group by 1", ""),
    (18, "select (array_sort(nums))[1] as x, count(*) from {a} group by 1", ""),
]  # fmt: skip
"""Without a reason it is taken, in Berlin."""


@pytest.mark.parametrize(("since", "query", "reason"), NEWER, ids=str)
def test_what_only_newer_servers_know_is_judged_too(
    lab: Lab, since: int, query: str, reason: str
) -> None:
    is_known = lab.connection.info.server_version >= since * 10_000
    if is_known and not reason:
        assert lab.compile(query, **BERLIN)["kind"] == "fact"
        return
    with pytest.raises(psycopg2.Error) as refused:
        lab.compile(query)
    if is_known:
        assert refused.value.pgcode == "WL003"
        assert reason in str(refused.value.diag.message_primary)
    else:
        assert str(refused.value.pgcode)[:2] == "42"
