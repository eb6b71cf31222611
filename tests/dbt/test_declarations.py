"""What a declaration says that cannot be is refused by a sentence that says what is accepted."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import jinja2
import pytest

from loader.setup import roll_ups
from testkit.commands import ROOT
from tests.dbt.project import Project, messages
from tests.dbt.staged import Warehouse
from waltally.errors import SettingError

TABLE = {"rows": "public.orders"}
DAY = {"date_of": "at", "timezone": "UTC"}
COUNT = {"n": {"count": "rows"}}
MANY = [str(number) for number in range(401)]


class Returned(Exception):
    """What a macro returns; dbt's `return` ends a macro so too."""


class Refused(Exception):
    """A compiler error."""


def declare(macro: str, *values: Any, **named: Any) -> Any:
    """Call a macro of the declarations as dbt does, without dbt."""
    environment = jinja2.Environment(extensions=["jinja2.ext.do"], autoescape=False)
    macros: dict[str, Callable[..., Any]] = {}

    def give(value: Any) -> None:
        raise Returned(value)

    def refuse(sentence: str) -> None:
        raise Refused(sentence)

    def calling(call: Callable[..., Any]) -> Callable[..., Any]:
        def called(*values: Any, **named: Any) -> Any:
            try:
                return call(*values, **named)
            except Returned as returned:
                return returned.args[0]

        return called

    environment.globals |= {
        "return": give,
        "waltally": macros,
        "modules": SimpleNamespace(re=re),
        "graph": named.pop("graph", None),
        "project_name": "tests",
        "model": SimpleNamespace(name=named.pop("model", "ft_orders"), resource_type="model"),
        "exceptions": SimpleNamespace(raise_dependency_error=refuse),
    }
    macro_folder = ROOT / "dbt_project/macros"
    for file in [
        *(macro_folder / "declaration").glob("*.sql"),
        *(macro_folder / "roll_ups").glob("*.sql"),
        *(macro_folder / "postgres").glob("quote_name.sql"),
    ]:
        module = environment.from_string(file.read_text()).module
        if not hasattr(module, file.stem):
            continue
        macros[file.stem] = calling(getattr(module, file.stem))
    return macros[macro](*values, **named)


def fact(**changed: Any) -> Any:
    """Declare a fact that is right but for what the test changes."""
    return declare(
        "declare_fact",
        **{"tables": TABLE, "dimensions": {"a": "text"}, "measures": COUNT, **changed},
    )


REFUSED: list[tuple[Mapping[str, Any], str]] = [
    ({"tables": {}}, "tables is {}; it takes {name: 'schema.table'}, one or more"),
    ({"tables": "public.orders"}, "tables is public.orders; it takes {name: 'schema.table'}"),
    ({"tables": {"My rows": "a.b"}}, "a table is called My rows; the name has lower-case letters"),
    ({"tables": {"rows": 7}}, "table rows is 7; it takes 'schema.table' or {'table': "),
    ({"tables": {"rows": {"deletes": "count"}}}, "; it takes 'schema.table' or {'table': "),
    ({"tables": {"rows": "orders"}}, "orders is not schema.table; a name with a dot, a comma or"),
    ({"tables": {"rows": "a.b, c.d"}}, "a.b, c.d is not schema.table"),
    (
        {"tables": {"rows": {"table": "a.b", "delete": "ignore"}}},
        "table rows has delete; it takes table, deletes, columns",
    ),
    (
        {"tables": {"rows": {"table": "a.b", "deletes": "keep"}}},
        "deletes of table rows is keep; it takes 'count' or 'ignore'",
    ),
    (
        {"tables": {"rows": {"table": "a.b", "columns": ["a"]}}},
        "columns of table rows is ['a']; it takes {name: column of this table}",
    ),
    (
        {"tables": {"rows": {"table": "a.b", "columns": {"b": "c"}}}},
        "columns of table rows maps b, which no dimension, sum or condition reads; it takes a",
    ),
    ({"tables": {"rows": "a.b", "more": "a.b"}}, "a.b is there twice; a table feeds a fact under"),
    ({"dimensions": {}}, "dimensions is {}; it takes {column: SQL type}, one or more"),
    ({"dimensions": {"a": 7}}, "dimension a is 7; it takes an SQL type, {'type': 'date', "),
    ({"dimensions": {"a": "json"}}, "dimension a is of type json; it takes uuid, text, boolean,"),
    ({"dimensions": {"a": "numeric"}}, "dimension a is of type numeric; it takes uuid, text,"),
    ({"dimensions": {"a": "numeric(2, 3)"}}, "dimension a is of type numeric(2, 3); it takes"),
    ({"dimensions": {"a": {"typ": "text"}}}, "dimension a has typ; it takes type, date_of, "),
    ({"dimensions": {"a": {**DAY, "month_of": "at"}}}, "has date_of and month_of; it takes one"),
    (
        {"dimensions": {"a": {"hour_of": "at", "timezone": "UTC", "type": "date"}}},
        "a hour_of of type",
    ),
    (
        {"dimensions": {"a": {"week_of": "at"}}},
        "such as 'Europe/London' or 'UTC', because a week begins some",
    ),
    (
        {"dimensions": {"a": {"type": "int", "bounds": [1]}}},
        "has bounds, which only bucket_of takes",
    ),
    (
        {"dimensions": {"a": {"bucket_of": "at"}}},
        "a bucket_of; it takes either 'bounds': [numbers]",
    ),
    (
        {"dimensions": {"a": {"bucket_of": 7, "bounds": [1]}}},
        "bucket_of of dimension a is 7; it ta",
    ),
    (
        {"dimensions": {"a": {"bucket_of": "at", "bounds": 7}}},
        "bounds of dimension a is 7; it takes a l",
    ),
    (
        {"dimensions": {"a": {"bucket_of": "at", "bounds": [1, "x"]}}},
        "bounds of dimension a has x; ",
    ),
    (
        {"dimensions": {"a": {"bucket_of": "at", "bounds": [1, "1.0"]}}},
        "dimension a has 1.0; it tak",
    ),
    (
        {"dimensions": {"a": {"bucket_of": "at", "bounds": [1], "type": "text"}}},
        "it takes 'bigint'",
    ),
    (
        {"dimensions": {"a": {"bucket_of": "at", "every": "7 hours"}}},
        "every of dimension a is 7 hours;",
    ),
    (
        {"dimensions": {"a": {"path": "city", "of": "at"}}},
        "path of dimension a is city; it takes a l",
    ),
    (
        {"dimensions": {"a": {"path": ["b", True], "of": "at"}}},
        "['b', True]; it takes a list of keys",
    ),
    (
        {"dimensions": {"a": {"path": ["city"]}}},
        "a has a path; it takes 'of': the json or jsonb col",
    ),
    (
        {"dimensions": {"a": {"type": "int", "labels": ["a"]}}},
        "labels of dimension a is ['a']; it ta",
    ),
    ({"dimensions": {"a": {"type": "int", "labels": {"x": "a"}}}}, "a has x, which is no integer"),
    (
        {"dimensions": {"a": {"type": "uuid", "labels": {"x": "a"}}}},
        "has labels and is of type uuid;",
    ),
    (
        {"dimensions": {"a": {**DAY, "labels": {"x": "a"}}}},
        "dimension a has labels beside date_of; a ",
    ),
    (
        {"dimensions": {"a": {"type": "text", "labels": {"x": "a" * 1001}}}},
        "has more than 1000 bytes",
    ),
    (
        {"dimensions": {"a": "int3"}},
        "a is of type int3; it takes uuid, text, boolean, smallint, int",
    ),
    ({"dimensions": {"a": {"from": "table"}}}, "dimension a is from table; it takes 'slot'"),
    ({"dimensions": {"a": {**DAY, "type": "text"}}}, "a date_of of type text; it takes 'date'"),
    (
        {"dimensions": {"a": {"from": "slot", "type": "uuid"}}},
        "dimension a is the slot and of type uuid; it takes 'text'",
    ),
    ({"dimensions": {"a": {**DAY, "date_of": 7}}}, "date_of of dimension a is 7; it takes a col"),
    ({"dimensions": {"a": {"date_of": "at"}}}, "dimension a has no timezone; it takes a name such"),
    (
        {"dimensions": {"a": {**DAY, "column_timezone": 0}}},
        "column_timezone of dimension a is 0; it takes a name such as",
    ),
    (
        {"dimensions": {"a": {"type": "date", "timezone": "UTC"}}},
        "dimension a has a timezone, which only date_of, hour_of, week_of, month_of, ",
    ),
    (
        {"dimensions": {"a": {"type": "text", "nulls": "keep"}}},
        "nulls of dimension a is keep; it takes 'count' or 'leave_out'",
    ),
    ({"dimensions": {"a": {"from": "slot", "nulls": "count"}}}, "a slot is never null"),
    ({"measures": {}}, "measures is {}; it takes {name: {'count': table}} or {name: {'sum': "),
    (
        {"measures": {"n": {"max": "a"}}},
        "measure n is max; it takes {'count': table} or {'sum': column}: what a row adds",
    ),
    (
        {"measures": {"n": "count"}},
        "measure n is count; it takes {'count': table} or {'sum': column}",
    ),
    ({"measures": {"n": {"count": "rows", "sum": "a"}}}, "measure n is count, sum; it takes"),
    ({"measures": {"n": {"count": "rows", "of": "rows"}}}, "measure n has of; it takes count"),
    ({"measures": {"n": {"count": "live"}}}, "measure n is of live; it takes one of the tables ro"),
    ({"measures": {"n": {"sum": 7}}}, "sum of measure n is 7; it takes a column, or {'product': "),
    (
        {"measures": {"n": {"sum": {"product": ["a"]}}}},
        "is {'product': ['a']}; it takes a column, or",
    ),
    (
        {"measures": {"n": {"sum": {"product": "ab"}}}},
        "is {'product': 'ab'}; it takes a column, or",
    ),
    (
        {"measures": {"n": {"sum": {"times": ["a", "b"]}}}},
        "is {'times': ['a', 'b']}; it takes a col",
    ),
    ({"measures": {"n": {"sum": "a", "type": "real"}}}, "measure n is of type real; a sum is num"),
    (
        {
            "tables": {
                "a": {"table": "s.a", "deletes": "ignore"},
                "b": {"table": "s.b", "deletes": "ignore"},
            },
            "measures": {"n": {"count": None}},
        },
        "measure n adds up a and b; it takes one table at most whose deletes are ignored",
    ),
    ({"where": "a"}, "where is a; it takes {column: condition}, as in {'state': {'in': ['paid']}}"),
    ({"where": {"a": "b"}}, "where a is b; it takes {'in': [values]}, {'not_in': [values]},"),
    ({"where": {"a": {"like": "b"}}}, "where a has like; it takes in, not_in, is_null, at_"),
    ({"where": {"a": {"in": "b"}}}, "where a in is b; it takes a list of values, one or more"),
    ({"where": {"a": {"in": []}}}, "where a in is []; it takes a list of values, one or more"),
    ({"where": {"a": {"not_in": [None]}}}, "where a not_in has null, which equals nothing"),
    ({"where": {"a": {"at_least": "b"}}}, "where a at_least is b; it takes a number such as 9.50,"),
    ({"where": {"a": {"below": True}}}, "where a below is True; it takes a number such as 9.50, a"),
    ({"where": {"a": {"below": "2026-02-29"}}}, "where a below is 2026-02-29; it takes a number"),
    (
        {"measures": {"n": {"count": None, "where": {"a": {"like": "b"}}}}},
        "where of measure n a has like; it takes in, not_in, is_null, at_least, below",
    ),
    ({"where": {"a": {"is_null": "no"}}}, "where a is_null is no; it takes true or false"),
    ({"derived": "a"}, "derived is a; it takes {column: SQL expression of the measures}"),
    ({"derived": {"d": 7}}, "derived d is 7; it takes an SQL expression of the measures"),
    ({"derived": {"n": "1"}}, "two columns are called n; id, dimensions, measures and derived"),
    ({"dimensions": {"id": "integer"}}, "two columns are called id; id, dimensions, measures"),
    ({"dimensions": {"x" * 64: "text"}}, "a name has 1 to 63 bytes and no control character"),
    (
        {"dimensions": {"a\x1b": "text"}},
        "a column is called a\\x1b; a name has 1 to 63 bytes and no",
    ),
    ({"dimensions": {"a\u202e": "text"}}, "a column is called a\\u202e; a name has 1 to 63 bytes"),
    (
        {"dimensions": {"ctid": "text"}},
        "a column is called ctid, as one that every table of Postgr",
    ),
    ({"measures": {"xmin": {"count": "rows"}}}, "a column is called xmin, as one that every table"),
    ({"derived": {"tableoid": "1"}}, "a column is called tableoid, as one that every table of"),
    (
        {"dimensions": dict.fromkeys(map(str, range(33)), "text")},
        "dimensions has 33 columns; it takes 32 at most, as an index does",
    ),
    (
        {"dimensions": {"a": "numeric(500, 0)", "b": "numeric(101, 2)", "c": "text"}},
        "dimensions has numeric columns of 601 digits together; it takes 600 at most",
    ),
    (
        {"measures": {str(n): {"count": "rows"} for n in range(399)}},
        "the model has 401 columns; it takes 400 at most, because a row of more may not fit",
    ),
    ({"model": "f" * 49}, "has more than 48 bytes, and uix_fff"),
    ({"model": "f" * 49}, "_dimensions would have more than 63; it takes a shorter name"),
]


@pytest.mark.parametrize(("changed", "sentence"), REFUSED)
def test_what_cannot_be_is_refused(changed: Mapping[str, Any], sentence: str) -> None:
    with pytest.raises(Refused) as error:
        fact(**changed)
    assert sentence in str(error.value)
    assert str(error.value).startswith(changed.get("model", "ft_orders") + ": ")
    assert str(error.value).endswith(".")


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"table": {"table": "a.b"}}, "table is {'table': 'a.b'}; it takes 'schema.table'"),
        ({"key": "id"}, "key is id; it takes a list of one or more of the columns id, office"),
        ({"key": ["name"]}, "key is ['name']; it takes a list of one or more of the columns id"),
        ({"columns": {}}, "columns is {}; it takes {column: SQL type}, one or more"),
        (
            {"key": ["id"], "columns": {"id": "json"}},
            "dimension id is of type json; it takes uuid, text",
        ),
        (
            {"key": ["id"], "columns": {"id": {"date_of": "at"}}},
            "column id is {'date_of': 'at'}; it takes an SQL type or {'from': 'slot'}",
        ),
        ({"key": ["id"]}, "column office is the slot and not in the key; it takes a place there"),
        ({"key": ["office"]}, "key is ['office']; it takes a column of the table besides the slot"),
        (
            {"key": MANY[:33], "columns": dict.fromkeys(MANY[:33], "text")},
            "key has 33 columns; it takes 32 at most, as an index does",
        ),
        (
            {"key": ["id"], "columns": {"id": "numeric(601, 0)", "more": "text"}},
            "key has numeric columns of 601 digits together; it takes 600 at most",
        ),
        (
            {"key": ["0"], "columns": dict.fromkeys(MANY, "text")},
            "has 401 columns; it takes 400 at",
        ),
        (
            {"key": ["cmin"], "columns": {"cmin": "text"}},
            "a column is called cmin, as one that eve",
        ),
        ({"model": "r" * 56}, "has more than 55 bytes, and rrrr"),
    ],
)
def test_current_rows_that_cannot_be_are_refused(changed: Mapping[str, Any], sentence: str) -> None:
    right = {
        "table": "public.projects",
        "key": ["id", "office"],
        "columns": {"id": "integer", "office": {"from": "slot"}},
    }
    with pytest.raises(Refused) as error:
        declare("declare_current_rows", **{**right, **changed})
    assert sentence in str(error.value)


def test_a_declaration_is_written_out_in_full() -> None:
    found = fact(
        tables={"rows": {"table": '"My shop"."Orders, ""all"""', "columns": {"day": "sold_at"}}},
        dimensions={"day": DAY, "channel": "text", "shop": {"from": "slot"}},
        measures={
            "n": {"count": None},
            "paid": {"sum": "amount", "of": "rows", "where": {"at": {"below": 7.5}}},
        },
        where={
            "state": {"in": ["paid", 7, True], "is_null": False},
            "at": {"at_least": "2024-02-29 00:00:00"},
        },
        derived={"twice": "n * 2"},
    )
    assert json.loads(json.dumps(found)) == {
        "version": 1,
        "kind": "fact",
        "tables": [
            {
                "name": "rows",
                "schema": "My shop",
                "table": 'Orders, "all"',
                "deletes": "count",
                "columns": {"at": "sold_at"},
            }
        ],
        "dimensions": [
            {
                "name": "day",
                "type": "date",
                "kind": "period",
                "column": "at",
                "unit": "day",
                "timezone": "UTC",
                "column_timezone": "UTC",
                "path": [],
                "bounds": [],
                "labels": {},
                "value_type": "date",
                "nulls": "leave_out",
            },
            {
                "name": "channel",
                "type": "text",
                "kind": "column",
                "column": "channel",
                "unit": None,
                "timezone": None,
                "column_timezone": None,
                "path": [],
                "bounds": [],
                "labels": {},
                "value_type": "text",
                "nulls": "leave_out",
            },
            {
                "name": "shop",
                "type": "text",
                "kind": "slot",
                "column": None,
                "unit": None,
                "timezone": None,
                "column_timezone": None,
                "path": [],
                "bounds": [],
                "labels": {},
                "value_type": "text",
                "nulls": "leave_out",
            },
        ],
        "measures": [
            {
                "name": "n",
                "kind": "count",
                "columns": [],
                "of": ["rows"],
                "type": "bigint",
                "where": [],
            },
            {
                "name": "paid",
                "kind": "sum",
                "columns": ["amount"],
                "of": ["rows"],
                "type": "numeric",
                "where": [{"column": "at", "test": "below", "values": ["7.5"], "is_null": None}],
            },
        ],
        "where": [
            {"column": "state", "test": "in", "values": ["paid", "7", "true"], "is_null": None},
            {"column": "state", "test": "is_null", "values": [], "is_null": False},
            {"column": "at", "test": "at_least", "values": ["2024-02-29"], "is_null": None},
        ],
        "key": [],
    }


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        *(("int", "integer"), ("INT4", "integer"), ("int8", "bigint"), ("int2", "smallint")),
        *(("bool", "boolean"), ("varchar", "text"), ("varchar(20)", "text")),
        *(("character varying(9)", "text"), ("timestamp with time zone", "timestamptz")),
        *(("decimal(6,2)", "numeric(6, 2)"), ("numeric(6)", "numeric(6, 0)")),
    ],
)
def test_a_type_may_have_any_of_its_names(written: str, meant: str) -> None:
    [found] = fact(dimensions={"a": written})["dimensions"]
    assert (found["type"], found["value_type"]) == (meant, meant)
    assert fact(dimensions={"a": {"type": written}})["dimensions"] == [found]


def test_buckets_paths_and_labels_are_written_out() -> None:
    found = fact(
        dimensions={
            "size": {"bucket_of": "amount", "bounds": [-0.5, "007", 10.25]},
            "whole": {"bucket_of": "amount", "bounds": [0, 10]},
            "slice": {"bucket_of": "at", "every": "15 minutes"},
            "city": {"path": ["address", 0], "of": "details", "nulls": "count"},
            "state": {"type": "int", "labels": {0: "draft"}},
        }
    )["dimensions"]
    size, whole, slice_, city, state = found
    assert (size["type"], size["bounds"]) == ("numeric(4, 2)", ["-0.50", "7.00", "10.25"])
    assert (whole["type"], whole["kind"], whole["column"]) == ("bigint", "bucket", "amount")
    assert (slice_["type"], slice_["unit"], slice_["timezone"]) == (
        "timestamptz",
        "900 seconds",
        "UTC",
    )
    assert (city["path"], city["column"], city["type"]) == (["address", "0"], "details", "text")
    assert (state["labels"], state["type"], state["value_type"]) == (
        {"0": "draft"},
        "text",
        "integer",
    )


def test_dbt_refuses_it_while_it_parses(warehouse: Warehouse, project: Project) -> None:
    wrong = project.home / "wrong"
    wrong.mkdir()
    (wrong / "ft_wrong.sql").write_text(
        "{{ waltally.fact(tables={'a': 'a.b'}, dimensions={'a': 'text'}, "
        "measures={'n': {'max': 'a'}}) }}"
    )
    settings = project.home / "dbt_project.yml"
    usual = settings.read_text()
    settings.write_text(usual.replace("models, examples", "models, examples, wrong"))
    try:
        done = warehouse.dbt("parse")
    finally:
        settings.write_text(usual)
    assert not done.success
    head, sentence = messages(done).strip().split("\n")
    assert head == "Runtime Error in model ft_wrong (wrong/ft_wrong.sql)"
    assert sentence.strip().startswith(
        "ft_wrong: measure n is max; it takes {'count': table} or {'sum': column}"
    )


def node(name: str, refs: list[str], **meta: Any) -> dict[str, Any]:
    return {
        "resource_type": "model",
        "name": name,
        "alias": name,
        "schema": "analytics",
        "package_name": "tests",
        "original_file_path": f"models/{name}.sql",
        "refs": [{"name": each, "package": None} for each in refs],
        "config": {"meta": meta},
    }


def roll_up(**changed: Any) -> Any:
    """Declare a roll-up that is right but for what the test changes."""
    return declare(
        "declare_roll_up",
        **{
            "dimensions": {"a": "a"},
            "measures": {"n": {"sum": "n"}},
            "lookups": {},
            "present": None,
            "derived": {},
            **changed,
        },
    )


LOOKUP = {"rows": "rows", "by": {"id": "a"}}


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"dimensions": {}}, "dimensions is {}; it takes {column: column of the fact or"),
        ({"dimensions": {"a": 7}}, "dimension a is 7; it takes a column of the fact or"),
        ({"measures": {}}, "measures is {}; it takes {column: {kind: column}}"),
        ({"measures": {"n": {"median": "a"}}}, "it takes one of sum, distinct, min, max and perc"),
        ({"measures": {"n": {"sum": "n", "min": "a"}}}, "it takes one of sum, distinct, min, max"),
        ({"measures": {"n": {"sum": "n", "of": "a"}}}, "measure n has of; it takes sum"),
        ({"measures": {"n": {"sum": 1}}}, "measure n is of 1; it takes a column"),
        ({"measures": {"n": {"percentile": 2, "of": "a"}}}, "is 2; it takes a number from 0 to 1"),
        ({"lookups": {"x": {"rows": "rows"}}}, "lookup x takes {'rows': ref(...), 'by': {"),
        ({"lookups": ["x"]}, "lookups is ['x']; it takes {name: {'rows': ref(...), 'by': {"),
        ({"present": 1}, "present is 1; it takes a measure of the fact"),
        ({"dimensions": {"n": "a"}}, "two columns are called n; id, dimensions, measures"),
    ],
)
def test_a_roll_up_that_cannot_be_is_refused(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(Refused, match=re.escape(said)):
        roll_up(**changed)


@pytest.mark.parametrize(
    ("changed", "refs", "said"),
    [
        ({}, ["rows"], "fact is rows; it takes ref() of a fact or a roll-up, before lookups"),
        ({"dimensions": {"a": "b"}}, ["ft"], "dimension a is b; it takes one of a"),
        ({"measures": {"n": {"sum": "a"}}}, ["ft"], "sum of measure n is a; it takes one of n"),
        ({"measures": {"n": {"min": "b"}}}, ["ft"], "min of measure n is b; it takes one of a, n"),
        ({"present": "a"}, ["ft"], "present is a; it takes one of n"),
        (
            {"lookups": {"x": LOOKUP}},
            ["ft", "ft"],
            "rows of lookup x is ft; it takes ref() of a model of current_rows",
        ),
        (
            {"lookups": {"x": {**LOOKUP, "by": {"name": "a"}}}},
            ["ft", "rows"],
            "lookup x is by name; it takes the key of rows: id",
        ),
        (
            {"lookups": {"x": {**LOOKUP, "by": {"id": "x.id"}}}},
            ["ft", "rows"],
            "lookup x is x.id; it takes one of a",
        ),
        (
            {"lookups": {"x": LOOKUP}, "dimensions": {"a": "x.age"}},
            ["ft", "rows"],
            "dimension a is x.age; it takes one of a, x.id, x.name",
        ),
    ],
)
def test_setup_and_dbt_refuse_what_a_roll_up_cannot_be_made_of(
    changed: dict[str, Any], refs: list[str], said: str
) -> None:
    rows = declare(
        "declare_current_rows", "s.t", ["id"], {"id": "integer", "name": "text"}, model="rows"
    )
    nodes = {
        "ft": node("ft", [], waltally=fact()),
        "rows": node("rows", [], waltally=rows),
        "rolled": node("rolled", refs, waltally_roll_up=roll_up(**changed)),
    }
    with pytest.raises(SettingError) as caught:
        roll_ups.check(nodes)
    assert str(caught.value) == f"rolled: {said}"
    graph = SimpleNamespace(nodes=nodes)
    with pytest.raises(Refused, match=re.escape(said)):
        declare("resolve_roll_up", nodes["rolled"], graph=graph, model="rolled")


def test_setup_takes_a_roll_up_of_a_roll_up() -> None:
    nodes = {
        "ft": node("ft", [], waltally=fact()),
        "one": node("one", ["ft"], waltally_roll_up=roll_up()),
        "two": node("two", ["one"], waltally_roll_up=roll_up(measures={"m": {"max": "n"}})),
    }
    assert roll_ups.check(nodes) == ("one", "two")
    resolved = declare("resolve_roll_up", nodes["two"], graph=SimpleNamespace(nodes=nodes))
    assert resolved["inputs"] == ["analytics.ft", "analytics.one"]
    assert resolved["measures"][0]["type"] == "bigint"
