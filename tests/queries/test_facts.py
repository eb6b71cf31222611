"""A fact equals its query after each batch of a random history, however it is cut."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import psycopg2
import pytest

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


def kept(lab: Lab, name: str, query: str, **options: Any) -> Model:
    """Return a model of no rows."""
    lab.clear()
    return Model(lab, name, query, Random(1), **options)


def test_rows_that_the_query_cannot_take_are_listed(lab: Lab) -> None:
    query = """select 10 / small as x, count(*) as n, sum(12 / n) as s, sum(code::integer) as c
    from {a} group by 1"""
    model = kept(lab, "listed", query)
    model.has_parts = False
    for change in (
        "insert into lab.a (id, small, n, code) values (1, 0, 1, '1'), (2, 1, 0, null), (3, 1, 1, 'x'), (4, 1, 1, '4')",
        # An update that moves nothing that the model needs is no change.
        "update lab.a set name = 'x'",
        "update lab.a set small = 2 where id = 1; update lab.a set n = 0 where id = 4",
        "update lab.a set code = 'y' where id = 3; delete from lab.a where id = 2",
    ):
        lab.execute(change)
    model.catch_up(is_cut=False)
    assert model.differences() == []
    listed = "select source_table, action, reason from lab.rejected order by commit_lsn, ordinal"
    assert lab.execute(listed) == [
        *[("lab.a", "I", "division by zero")] * 2,
        ("lab.a", "I", 'invalid input syntax for type integer: "x"'),
        ("lab.a", "U", "division by zero"),
        ("lab.a", "U", 'invalid input syntax for type integer: "y"'),
    ]


def test_an_update_to_a_row_that_cannot_be_taken_is_no_ignored_delete(lab: Lab) -> None:
    query = "select 10 / small as x, count(*) as n from {a} group by 1"
    model = kept(lab, "purged_bad", query, ignore_deletes=["lab.a"])
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
                *(
                    model.table_nos[0],
                    alike,
                    transactions,
                    changes,
                    model.table_nos,
                    model.ordinals,
                ),
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


def test_it_is_known_whether_time_zone_data_decide(lab: Lab) -> None:
    for key, is_zoned in (
        ("abs(n)", False),
        ("at < '2026-01-01 00:00+00'", False),
        ("(at at time zone 'Europe/Berlin')::date", True),
    ):
        compiled = lab.compile(f"select {key} as k, count(*) as c from {{a}} group by 1")
        assert compiled["is_zoned"] is is_zoned, key


def test_a_total_that_fails_stops_the_model_and_names_the_group(lab: Lab) -> None:
    query = "select code, count(*)::integer as n, sqrt(sum(n)) as s from {a} group by 1"
    model = kept(lab, "fails", query)
    lab.execute("insert into lab.a (id, code, n) values (1, 'good', 4), (2, 'bad', -4)")
    with pytest.raises(psycopg2.Error, match="square root of a negative number") as stopped:
        model.catch_up()
    assert "in the group (bad)" in str(stopped.value.diag.message_primary)


def test_a_row_that_goes_and_never_came_stops_the_model(lab: Lab) -> None:
    model = kept(lab, "below", "select code, count(*) as n from {a} group by 1")
    lab.execute("insert into lab.a (id, code) values (1, 'old')")
    model.lsn = model.now()
    lab.execute("delete from lab.a")
    with pytest.raises(psycopg2.Error, match="would fall below zero"):
        model.catch_up()


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
    "alike": (
        "select code, sum(n) as s from {a} group by 1",
        "insert into lab.a (id, n) select n, 3 from generate_series(1, 100) as n",
    ),
    # Keys that fit no index: no compression makes them short enough.
    "long_keys": (
        "select name, price, raw, count(*) as n, sum(n) as s, length(name) * count(*) as length from {a} group by 1, 2, 3",
        "insert into lab.a (id, name, n) values (1, 'short', 1), (2, null, 2), (3, 'short', 3)",
        "insert into lab.a (id, name, n) select 3 + n, left(lab.noise(300), 2000 * n), n from generate_series(1, 4) as n;"
        "insert into lab.a (id, price) values (8, 1e1000), (9, 1.00), (10, 1)",
        "insert into lab.a (id, name, n) select 10 + n, left(lab.noise(300), 2000 * n), n from generate_series(1, 5) as n;"
        "insert into lab.a (id, raw) values (16, convert_to(lab.noise(99), 'UTF8'))",
        "update lab.a set n = 7 where id in (2, 3, 5, 7, 9)",
        "delete from lab.a where id in (1, 2, 5, 10, 12)",
        "delete from lab.a where id in (3, 8)",
        "insert into lab.a (id, name, n) values (20, 'short', 1), (21, null, 2)",
    ),
    # PostgreSQL folds a bigint to 32 bits before it hashes it.
    "long_and_alike_by_hash": (
        "select name, n, count(*) as c from {b} group by 1, 2",
        "insert into lab.b (name, n) values (lab.noise(300), 1)",
        "insert into lab.b (name, n) values ('a', 0)",
        "insert into lab.b (name, n) values ('a', 4294967297), ('a', 0)",
        "delete from lab.b where n = 0",
    ),
    # Each row is taken away once, and where another table is emptied, its own alone.
    "emptied_twice": (
        "select count(*) as n from (select id from {a} union all select id from {b}"
        " union all select id from {of_extensions}) as three",
        *(
            "insert into lab.a default values; insert into lab.b default values;"
            "insert into lab.of_extensions values (1)",
            "truncate lab.a",
            "truncate lab.of_extensions",
        )
        * 2,
    ),
}
"""By a model's name its query and the changes after it."""


@pytest.mark.parametrize("name", HISTORIES)
def test_model_equals_its_query_after_each_change(lab: Lab, name: str) -> None:
    query, *changes = HISTORIES[name]
    model = kept(lab, name, query, more=0)
    model.has_parts = False
    for change in changes:
        lab.execute(change)
        model.catch_up()
        assert model.differences(digits=16) == []


def test_what_nobody_reads_is_not_needed(lab: Lab) -> None:
    compiled = lab.compile(
        "with i as (select * from {a}), f as (select * from i where n > 1) "
        "select code, count(*) as n, sum(small) as s from f group by 1"
    )
    needed = [c["name"] for c in compiled["sources"][0]["columns"] if c["is_needed"]]
    assert sorted(needed) == ["code", "n", "small"]
