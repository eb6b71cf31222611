"""A fact equals its query after each batch of a random history, however it is cut."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import psycopg2
import pytest

from testkit.comparison import apart
from tests.queries.cases import cases
from tests.queries.lab import Lab, Model
from tests.queries.odd import Writer

MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    name: (query, json.loads(config or "{}")) for name, config, query in cases("facts")
}


@pytest.mark.parametrize("name", MODELS)
def test_model_equals_its_query_after_each_batch(lab: Lab, name: str) -> None:
    rng = Random(name)
    lab.clear()
    query, options = MODELS[name]
    model = Model(lab, name, query, rng, **options)
    writer = Writer(lab, rng)
    for _ in range(12):
        writer.write(rng.choice((1, 3, 10, 30)))
        model.catch_up()
        assert model.differences() == []


def test_rows_that_the_query_cannot_take_are_listed(lab: Lab) -> None:
    rng = Random("rejected")
    lab.clear()
    query = """select 10 / small as x, count(*) as n, sum(12 / n) as s, sum(code::integer) as c
    from {a} group by 1"""
    model = Model(lab, "listed", query, rng)
    Writer(lab, rng, truncates=False).write(150)
    model.has_parts = False
    model.catch_up(is_cut=False)
    assert model.differences() == []
    # An update that moves nothing that the model needs is no change.
    bad = """
    select 'lab.a', action::text, case
        when '0' in (new ->> 'small', new ->> 'n') then 'division by zero'
        else format('invalid input syntax for type integer: "%s"', new ->> 'code')
    end
    from cdc.change_log
    cross join lateral (
        select jsonb_object_agg(value ->> 'name', value ->> 'value') as new
        from jsonb_array_elements(payload::jsonb -> 'columns')
    ) as new
    cross join lateral (
        select jsonb_object_agg(value ->> 'name', value ->> 'value') as old
        from jsonb_array_elements(payload::jsonb -> 'identity')
    ) as old
    where action in ('I', 'U') and payload::jsonb ->> 'table' = 'a'
    and exists (select from unnest('{small,n,code}'::text[]) as name where new -> name is distinct from old -> name)
    and ('0' in (new ->> 'small', new ->> 'n') or new ->> 'code' !~ '^[0-9]+$')
    """
    listed = "select source_table, action, reason from lab.rejected"
    assert lab.value(f"select count(*) from ({listed}) as x") > 10
    assert lab.execute(apart(listed, bad)) == []


def test_an_update_to_a_row_that_cannot_be_taken_is_no_ignored_delete(lab: Lab) -> None:
    lab.clear()
    query = "select 10 / small as x, count(*) as n from {a} group by 1"
    model = Model(lab, "purged_bad", query, Random(1), ignore_deletes=["lab.a"])
    lab.execute("insert into lab.a (id, small) values (1, 1), (2, 1)")
    model.catch_up()
    begun = model.lsn
    lab.execute("update lab.a set small = 0 where id = 1; delete from lab.a where id = 2")
    # Each change alone, as a list of what cannot be taken is read.
    model.step("add", model._read(model.now(), (begun, 0), (model.now(), 0), True))
    assert lab.execute("select * from lab.purged_bad") == [(10, 1)]


def test_more_than_a_thousand_such_rows_of_one_transaction_stop_the_model(lab: Lab) -> None:
    query = "select 10 / small as x, count(*) as n from {a} group by 1"
    model = Model(lab, "stops", query, Random(1))

    def found(changes: int, alike: int, transactions: int) -> int:
        return int(
            lab.value(
                "select cardinality(bad) from cdc.find_bad_images('lab.stops_deltas', array("
                " select row(%s, 'I', null, null, false, null, null, array_fill('0'::text, '{40}'),"
                " %s, '0/1'::pg_lsn + n %% %s, null)::cdc.change from generate_series(1, %s) as n"
                "), %s, %s::integer[])",
                *(model.table_nos[0], alike, transactions, changes, model.table_nos, model.places),
            )
        )

    assert found(1000, 1, 1) == 1000
    assert found(2000, 1, 2) == 2000
    assert found(2, 1001, 1) == 2, "perhaps of as many transactions"
    with pytest.raises(psycopg2.Error, match="more than 1,000 rows of one transaction"):
        found(1001, 1, 1)


def test_settings_of_a_session_change_nothing(lab: Lab) -> None:
    lab.clear()
    query = """select seen at time zone 'IST' as at, tags = '{x,NULL}' as same, count(*) as n
    from {a} where at > '2025-12-31 20:00' and at < '2026-01-01 00:00 IST'
    group by 1, 2"""
    lab.execute("set array_nulls = off; set timezone_abbreviations = 'India'")
    model = Model(lab, "settings", query, Random(1), timezone="Europe/Berlin")
    lab.execute(
        "insert into lab.a (id, at, seen, tags) select n, '2025-12-31 17:30+00'::timestamptz"
        " + n * interval '1 hour', '2026-01-01', array['x', null] from generate_series(1, 9) as n"
    )
    model.catch_up()
    lab.execute("reset array_nulls; reset timezone_abbreviations")
    assert lab.execute("select same, n from lab.settings") == [(True, 3)]
    assert model.differences() == []


@pytest.mark.parametrize(
    ("query", "relied_on"),
    [
        ("select n + 1 as k, count(name) as c from {a} where code in ('x') group by 1", []),
        ("select n, count(*) as c from {a} where at < '2026-01-01 00:00+00' group by 1", []),
        ("select abs(n) as k, count(*) as c from {a} group by 1", ["major version"]),
        (
            "select (at at time zone 'Europe/Berlin')::date as d, count(*) as c from {a} group by 1",
            ["major version", "time-zone data"],
        ),
        ("select name, count(*) as c from {a} group by 1", ["collation version"]),
        (
            "select n, count(*) as c from {a} where name < code group by 1",
            ["major version", "collation version"],
        ),
        ('select n, count(*) as c from {a} where name < code collate "C" group by 1', []),
    ],
)
def test_what_an_upgrade_of_the_server_may_change_is_known(
    lab: Lab, query: str, relied_on: list[str]
) -> None:
    assert lab.compile(query)["relies_on"] == relied_on


def test_a_total_that_fails_stops_the_model_and_names_the_group(lab: Lab) -> None:
    lab.clear()
    query = "select code, count(*)::integer as n, sqrt(sum(n)) as s from {a} group by 1"
    model = Model(lab, "fails", query, Random(1))
    lab.execute("insert into lab.a (id, code, n) values (1, 'good', 4), (2, 'bad', -4)")
    with pytest.raises(psycopg2.Error, match="square root of a negative number") as stopped:
        model.catch_up()
    assert "in the group (bad)" in str(stopped.value.diag.message_primary)


def test_rows_that_look_alike_are_all_counted(lab: Lab) -> None:
    lab.clear()
    model = Model(lab, "alike", "select code, sum(n) as s from {a} group by 1", Random(1), more=0)
    model.has_parts = False
    lab.execute("insert into lab.a (id, n) select n, 3 from generate_series(1, 100) as n")
    model.catch_up()
    assert model.differences() == []


def test_a_row_that_goes_and_never_came_stops_the_model(lab: Lab) -> None:
    lab.clear()
    lab.execute("insert into lab.a (id, code) values (1, 'old')")
    model = Model(lab, "below", "select code, count(*) as n from {a} group by 1", Random(1))
    lab.execute("delete from lab.a")
    with pytest.raises(psycopg2.Error, match="would fall below zero"):
        model.catch_up()


def test_a_key_too_long_for_an_index_is_a_row_that_cannot_be_taken(lab: Lab) -> None:
    lab.clear()
    model = Model(lab, "long", "select price, raw, count(*) as n from {a} group by 1, 2", Random(1))
    lab.execute(
        "insert into lab.a (id, price, raw) values (1, 1e1000, null), (2, 1.00, null), "
        "(3, 1, sha256('a')), (4, 2, convert_to(repeat('x', 3000), 'UTF8'))"
    )
    model.catch_up()
    assert lab.execute("select price::text, n from lab.long order by raw nulls first") == [
        ("1", 1),
        ("1", 1),
    ]


def test_the_texts_of_a_key_fit_an_index_together(lab: Lab) -> None:
    lab.clear()
    query = (
        "select name, name || 'b' as b, name || 'c' as c, count(*) as n from {a} group by 1, 2, 3"
    )
    model = Model(lab, "long_texts", query, Random(1))
    # No compression makes them short enough.
    lab.execute(
        "insert into lab.a (id, name) select 1, left(string_agg(md5(n::text), ''), 950)"
        " from generate_series(1, 30) as n"
    )
    model.catch_up()
    assert model.differences() == []


def test_a_table_that_is_emptied_twice_takes_away_each_row_once(lab: Lab) -> None:
    """And where another one is emptied, it takes away its own alone."""
    lab.clear()
    tables = ("a", "b", "of_extensions")
    rows = " union all ".join(f"select id from {{{table}}}" for table in tables)
    model = Model(lab, "emptied_twice", f"select count(*) as n from ({rows}) as three", Random(1))
    for number in (1, 2):
        insert = "; ".join(f"insert into lab.{table} (id) values ({number})" for table in tables)
        for change in (insert, "truncate lab.a", "truncate lab.of_extensions"):
            lab.execute(change)
            model.catch_up()
            assert model.differences() == []


HISTORIES: dict[str, tuple[str, ...]] = {
    # A value of many digits comes and goes; of an average 16 count.
    "unscaled": (
        "select flag, avg(price) as mean, sum(price) as s from {a} group by 1",
        "insert into lab.a (id, price) values (1, 1), (2, 1), (3, 2)",
        "insert into lab.a (id, price) values (4, 0.01 / 3)",
        "delete from lab.a where id = 4",
    ),
    "emptied": (
        "select flag, count(*) as n from {a} group by 1",
        "insert into lab.a (id) values (1); truncate lab.a; insert into lab.a (id) values (1), (2);"
        " truncate lab.a; insert into lab.a (id) values (3)",
    ),
    # Equal, and spelled apart.
    "spans": (
        "select span::text as span, extract(day from span) as days, count(*) as n from {a} group by 1, 2",
        "insert into lab.a (id, span) values (1, '1 day'), (2, '24:00'), (3, '1 day')",
        "update lab.a set span = '24:00' where id = 1",
        "update lab.a set span = '1 day' where id = 2",
    ),
    "extensions": (
        "select tag::text as tag, pairs::text as pairs, count(*) as n, count(tag) as tags"
        " from {of_extensions} group by 1, 2",
        "insert into lab.of_extensions values (1, 'A', 'a=>1'), (2, 'a', 'a => 1'), (3, null, null)",
        "update lab.of_extensions set tag = 'a', pairs = 'b=>NULL,a=>1' where id = 1",
        "delete from lab.of_extensions where id = 2",
    ),
}
"""By a model's name its query and the changes after it."""


@pytest.mark.parametrize("name", HISTORIES)
def test_model_equals_its_query_after_each_change(lab: Lab, name: str) -> None:
    lab.clear()
    query, *changes = HISTORIES[name]
    model = Model(lab, name, query, Random(1))
    for change in changes:
        lab.execute(change)
        model.catch_up()
        assert model.differences(digits=16) == []


def test_what_nobody_reads_of_a_table_of_many_columns_is_not_needed(lab: Lab) -> None:
    compiled = lab.compile(
        "with i as (select * from {wide}), f as (select * from i where c0 > 1) "
        "select c1, count(*) as n, sum(c2) as s from f group by 1"
    )
    needed = [c["name"] for c in compiled["sources"][0]["columns"] if c["is_needed"]]
    assert sorted(needed) == ["c0", "c1", "c2"]
