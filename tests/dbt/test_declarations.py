"""What a declaration says that cannot be is refused by a sentence that says what is accepted."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import jinja2
import pytest

from tests.dbt.project import Project, messages
from tests.dbt.staged import Warehouse
from tests.support import ROOT

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
        "model": SimpleNamespace(name=named.pop("model", "ft_orders"), resource_type="model"),
        "exceptions": SimpleNamespace(raise_dependency_error=refuse),
    }
    for file in (ROOT / "dbt_project/macros/declaration").glob("*.sql"):
        module = environment.from_string(file.read_text()).module
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
        "dimension a has a timezone, which only date_of and month_of take",
    ),
    (
        {"dimensions": {"a": {"type": "text", "nulls": "keep"}}},
        "nulls of dimension a is keep; it takes 'count' or 'leave_out'",
    ),
    ({"dimensions": {"a": {"from": "slot", "nulls": "count"}}}, "a slot is never null"),
    ({"measures": {}}, "measures is {}; it takes {name: {'count': table}} or {name: {'sum': "),
    ({"measures": {"n": {"max": "a"}}}, "measure n is max; it takes count or sum: what a row adds"),
    ({"measures": {"n": "count"}}, "measure n is count; it takes count or sum"),
    ({"measures": {"n": {"count": "rows", "sum": "a"}}}, "measure n is count, sum; it takes"),
    ({"measures": {"n": {"count": "rows", "of": "rows"}}}, "measure n has of; it takes count"),
    ({"measures": {"n": {"count": "live"}}}, "measure n is of live; it takes one of the tables ro"),
    ({"measures": {"n": {"sum": 7}}}, "sum of measure n is 7; it takes a column"),
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
    ({"where": "a"}, "where is a; it takes {column: {'in': [values]}}, 'not_in' or 'is_null'"),
    ({"where": {"a": "b"}}, "where a is b; it takes {'in': [values]}, {'not_in': [values]} or"),
    ({"where": {"a": {"like": "b"}}}, "where a has like; it takes in, not_in, is_null"),
    ({"where": {"a": {"in": "b"}}}, "where a in is b; it takes a list of values, one or more"),
    ({"where": {"a": {"in": []}}}, "where a in is []; it takes a list of values, one or more"),
    ({"where": {"a": {"not_in": [None]}}}, "where a not_in has null, which equals nothing"),
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
        measures={"n": {"count": None}, "paid": {"sum": "amount", "of": "rows"}},
        where={"state": {"in": ["paid", 7, True], "is_null": False}},
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
                "kind": "date_of",
                "column": "at",
                "timezone": "UTC",
                "column_timezone": "UTC",
                "nulls": "leave_out",
            },
            {
                "name": "channel",
                "type": "text",
                "kind": "column",
                "column": "channel",
                "timezone": None,
                "column_timezone": None,
                "nulls": "leave_out",
            },
            {
                "name": "shop",
                "type": "text",
                "kind": "slot",
                "column": None,
                "timezone": None,
                "column_timezone": None,
                "nulls": "leave_out",
            },
        ],
        "measures": [
            {"name": "n", "kind": "count", "column": None, "of": ["rows"], "type": "bigint"},
            {"name": "paid", "kind": "sum", "column": "amount", "of": ["rows"], "type": "numeric"},
        ],
        "where": [
            {"column": "state", "test": "in", "values": ["paid", "7", "true"], "is_null": None},
            {"column": "state", "test": "is_null", "values": [], "is_null": False},
        ],
        "key": [],
    }


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
    assert sentence.strip().startswith("ft_wrong: measure n is max; it takes count or sum")
