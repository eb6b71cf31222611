"""What a declaration says that cannot be is refused by a sentence that says what is accepted."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jinja2
import pytest
from dbt_common.clients.jinja import create_undefined
from dbt_common.exceptions import DbtRuntimeError

from loader.setup.roll_ups import declared_roll_ups
from testkit.facts import column
from tests.dbt.project import Project
from tests.dbt.staged import DATABASE
from waltally.errors import SettingError

RIGHT: dict[str, dict[str, Any]] = {
    "declare_fact": {
        "tables": {"rows": "public.orders"},
        "dimensions": {"a": "text"},
        "measures": {"n": {"count": "rows"}},
    },
    "declare_current_rows": {
        "table": "public.projects",
        "key": ["id", "office"],
        "columns": {"id": "integer", "office": {"from": "slot"}},
    },
    "declare_roll_up": {
        "dimensions": {"a": "a"},
        "measures": {"n": {"sum": "n"}},
        "lookups": {},
        "present": None,
        "derived": {},
    },
}
"""Arguments of each macro that are right."""
RIGHT["fact"] = RIGHT["declare_fact"]


def refusals() -> list[Any]:
    """The macro, what is declared and what is said of it, for each line of the table."""
    cases, macro = [], ""
    text = Path(__file__).with_name("refused_declarations.txt").read_text()
    for line in text.splitlines():
        if line.startswith("["):
            macro = line.strip("[]")
        elif " => " in line:
            declared, said = line.split(" => ")
            cases.append(pytest.param(macro, declared, said, id=f"{macro}({declared})"[:90]))
    return cases


@pytest.fixture
def parsed(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    """The project, parsed as it is for the tests that run it."""
    monkeypatch.setenv("PGDATABASE", DATABASE)
    return project


@pytest.mark.parametrize(("macro", "declared", "said"), refusals())
def test_what_cannot_be_is_refused(parsed: Project, macro: str, declared: str, said: str) -> None:
    environment = jinja2.Environment(autoescape=False, undefined=create_undefined(None))
    expression = environment.compile_expression(f"dict({declared})")
    changed: dict[str, Any] = expression(dict=dict) or {}
    model = changed.get("model", "ft_orders")
    with pytest.raises(DbtRuntimeError) as error:
        parsed.call(macro, **{**RIGHT[macro], "model": model, **changed})
    sentence = str(error.value).split("\n")[-1].strip()
    assert said in sentence
    assert sentence.startswith(f"{model}: ")
    assert sentence.endswith(".")


def fact(parsed: Project, **changed: Any) -> Any:
    return parsed.call("declare_fact", **{**RIGHT["declare_fact"], **changed})


def test_a_declaration_is_written_out_in_full(parsed: Project) -> None:
    found = fact(
        parsed,
        tables={"rows": {"table": '"My shop"."Orders, ""all"""', "columns": {"day": "sold_at"}}},
        dimensions={
            "day": {"date_of": "at", "timezone": "UTC"},
            "channel": "text",
            "shop": {"from": "slot"},
        },
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
    day = {"kind": "period", "column": "at", "unit": "day"}
    table = {"schema": "My shop", "table": 'Orders, "all"', "columns": {"at": "sold_at"}}
    of_rows = {"of": ["rows"], "where": []}
    below = {"column": "at", "test": "below", "values": ["7.5"], "is_null": None}
    assert json.loads(json.dumps(found)) == {
        "version": 1,
        "kind": "fact",
        "tables": [{"name": "rows", "deletes": "count", **table}],
        "dimensions": [
            column("day", "date", timezone="UTC", column_timezone="UTC", **day),
            column("channel", "text"),
            column("shop", "text", kind="slot", column=None),
        ],
        "measures": [
            {"name": "n", "kind": "count", "columns": [], "type": "bigint", **of_rows},
            {
                **{"name": "paid", "kind": "sum", "columns": ["amount"], "type": "numeric"},
                **{**of_rows, "where": [below]},
            },
        ],
        "where": [
            {"column": "state", "test": "in", "values": ["paid", "7", "true"], "is_null": None},
            {"column": "state", "test": "is_null", "values": [], "is_null": False},
            {"column": "at", "test": "at_least", "values": ["2024-02-29"], "is_null": None},
        ],
        "key": [],
    }


def test_a_type_may_have_any_of_its_names(parsed: Project) -> None:
    names = {
        **{"int": "integer", "INT4": "integer", "int8": "bigint", "int2": "smallint"},
        **{"bool": "boolean", "varchar": "text", "varchar(20)": "text"},
        **{"character varying(9)": "text", "timestamp with time zone": "timestamptz"},
        **{"decimal(6,2)": "numeric(6, 2)", "numeric(6)": "numeric(6, 0)"},
    }
    for written, meant in names.items():
        [found] = fact(parsed, dimensions={"a": written})["dimensions"]
        assert (found["type"], found["value_type"]) == (meant, meant)
        assert fact(parsed, dimensions={"a": {"type": written}})["dimensions"] == [found]


def nodes(parsed: Project, **rolled: tuple[list[str], dict[str, Any]]) -> dict[str, Any]:
    """A project's models as dbt has them: a fact, current rows, and roll-ups of these refs."""
    columns = {"id": "integer", "name": "text"}
    rows = parsed.call("declare_current_rows", table="s.t", key=["id"], columns=columns)
    models: dict[str, tuple[list[str], dict[str, Any]]] = {
        "ft": ([], {"waltally": fact(parsed)}),
        "rows": ([], {"waltally": rows}),
    }
    for name, (refs, changed) in rolled.items():
        declared = {**RIGHT["declare_roll_up"], **changed}
        meta = {"waltally_roll_up": parsed.call("declare_roll_up", model=name, **declared)}
        models[name] = refs, meta
    return {
        name: {
            **{"resource_type": "model", "name": name, "alias": name, "schema": "analytics"},
            **{"package_name": "tests", "original_file_path": f"models/{name}.sql"},
            "refs": [{"name": each, "package": None} for each in refs],
            "config": {"meta": meta},
        }
        for name, (refs, meta) in models.items()
    }


def resolve(parsed: Project, models: dict[str, Any], name: str) -> Any:
    """Resolve as dbt does while it builds: the first model is the fact, the lookups follow."""
    fact, *rows = [
        SimpleNamespace(schema="analytics", identifier=each["name"])
        for each in models[name]["refs"]
    ]
    declared = models[name]["config"]["meta"]["waltally_roll_up"]
    named = {
        "declared": declared,
        "finer": fact,
        "rows": {
            lookup["name"]: row for lookup, row in zip(declared["lookups"], rows, strict=True)
        },
    }
    graph = SimpleNamespace(nodes=models)
    return parsed.call("resolve_roll_up", graph=graph, model=name, **named)


LOOKUP = {"rows": "rows", "by": {"id": "a"}}


@pytest.mark.parametrize(
    ("changed", "refs", "said"),
    [
        ({}, "rows", "fact is rows; use ref() of a fact or a roll-up"),
        ({"dimensions": {"a": "b"}}, "ft", "dimension a is b; use one of a"),
        ({"measures": {"n": {"sum": "a"}}}, "ft", "sum of measure n is a; use one of n"),
        ({"measures": {"n": {"min": "b"}}}, "ft", "min of measure n is b; use one of a, n"),
        ({"present": "a"}, "ft", "present is a; use one of n"),
        (
            {"lookups": {"x": LOOKUP}},
            "ft ft",
            "rows of lookup x is ft; use ref() of a model of current_rows",
        ),
        (
            {"lookups": {"x": {**LOOKUP, "by": {"name": "a"}}}},
            "ft rows",
            "lookup x is by name; use the key of rows: id",
        ),
        (
            {"lookups": {"x": {**LOOKUP, "by": {"id": "x.id"}}}},
            "ft rows",
            "lookup x is x.id; use one of a",
        ),
        (
            {"lookups": {"x": LOOKUP}, "dimensions": {"a": "x.age"}},
            "ft rows",
            "dimension a is x.age; use one of a, x.id, x.name",
        ),
    ],
)
def test_setup_and_dbt_refuse_what_a_roll_up_cannot_be_made_of(
    parsed: Project, changed: dict[str, Any], refs: str, said: str
) -> None:
    models = nodes(parsed, rolled=(refs.split(), changed))
    with pytest.raises(SettingError) as caught:
        declared_roll_ups(models)
    assert str(caught.value) == f"rolled: {said}"
    with pytest.raises(DbtRuntimeError, match=re.escape(said)):
        resolve(parsed, models, "rolled")


def test_a_schema_that_dbt_cannot_write_to_is_refused(parsed: Project) -> None:
    relation = SimpleNamespace(schema='the "marts"')
    with pytest.raises(DbtRuntimeError, match="choose a DBT_SCHEMA without"):
        parsed.call("postgres__create_schema", relation=relation)
