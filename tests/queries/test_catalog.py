"""A database whose users made casts implicit, and operators and functions of the names of PostgreSQL's."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from random import Random

import pytest
from psycopg2 import errors

from testkit.databases import empty_database
from testkit.servers import Cluster, connect
from tests.queries.cases import cases
from tests.queries.lab import Lab, Model
from tests.queries.models_lab import BELOW, Below, Dependent, fill, writer_of
from tests.queries.models_lab import TABLES as BELOW_TABLES
from tests.queries.odd import TABLES, TYPES, Writer

TEXTS = [
    "boolean",
    "smallint",
    "integer",
    "bigint",
    "numeric",
    "varchar",
    "oid",
    "regclass",
    "regproc",
    "regprocedure",
    "regtype",
    "json",
    "jsonb",
    "date",
    "timestamp",
    "timestamptz",
    "interval",
    "uuid",
    "pg_lsn",
    "real",
    "float8",
    "name",
    '"char"',
    "bytea",
    "xid",
    "xid8",
]
ARRAYS = [
    "text[]",
    "integer[]",
    "smallint[]",
    "bigint[]",
    "numeric[]",
    "boolean[]",
    "oid[]",
    "name[]",
    "regtype[]",
    "jsonb[]",
    '"char"[]',
    "int2vector",
    "oidvector",
]
"""A text may become one of these. The other way round is a test of its own."""
SHADOWS = """
create schema shadow;
create function shadow.no(text, text) returns boolean language sql immutable as 'select false';
create function shadow.no(integer, integer) returns boolean language sql immutable as 'select false';
create function shadow.joined(text, text) returns text language sql immutable as $$select 'x'$$;
create function shadow.value(jsonb, text) returns text language sql immutable as $$select 'x'$$;
create function shadow.lower(text) returns text language sql immutable as $$select 'x'$$;
create operator shadow.= (function = shadow.no, leftarg = text, rightarg = text);
create operator shadow.= (function = shadow.no, leftarg = integer, rightarg = integer);
create operator shadow.|| (function = shadow.joined, leftarg = text, rightarg = text);
create operator shadow.->> (function = shadow.value, leftarg = jsonb, rightarg = text);
create aggregate shadow.jsonb_agg (jsonb) (sfunc = pg_catalog.jsonb_concat, stype = jsonb, initcond = '{}');
"""
THERE = "exception when duplicate_object or invalid_object_definition then null"
DEPENDENTS = [
    "left_days",
    "per_customer",
    "percentiles",
    "may_see",
    "finer",
    "by_region",
    "members",
    "left_of_left_arms",
    "cases",
]
# Of the users' own: which || of a text and a number is meant, is not clear any more.
AMBIGUOUS = (
    "keys_beside_totals", "texts_beside_totals", "expressions_of_keys", "expressions_of_whole_keys",
)  # fmt: skip


@pytest.fixture(scope="module")
def lab(cluster: Cluster) -> Iterator[Lab]:
    database = empty_database(cluster)
    with connect(cluster.dsn(database.name)) as own:
        for statement in SHADOWS.split(";\n"):
            if statement:
                own.ask(statement)
        casts = [
            (one, other) for type_ in TEXTS for one, other in ((type_, "text"), ("text", type_))
        ]
        for one, other in [*casts, *(("text", array) for array in ARRAYS)]:
            own.ask(
                f"do $$ begin create cast ({one} as {other}) with inout as implicit; {THERE}; end $$"
            )
    with Lab.following(cluster.dsn(database.name), TYPES + TABLES + BELOW_TABLES) as made:
        yield made


@contextmanager
def shadowed(lab: Lab) -> Iterator[None]:
    """Let the session find what is called like PostgreSQL's own first."""
    lab.execute("set search_path to shadow, pg_catalog")
    try:
        yield
    finally:
        lab.execute("set search_path to pg_catalog, pg_temp")


def test_facts_follow(lab: Lab) -> None:
    rng = Random(1)
    lab.clear()
    with shadowed(lab):
        models = [
            Model(lab, name, query, rng, **json.loads(config or "{}"))
            for name, config, query in cases("facts")[1::4]
            if name not in AMBIGUOUS
        ]
    Writer(lab, rng).write(30)
    with shadowed(lab):
        for model in models:
            model.catch_up()
    for model in models:
        assert model.differences() == [], model.name


def test_models_over_models_follow(lab: Lab) -> None:
    rng = Random(1)
    lab.clear()
    with shadowed(lab):
        below = [Below(lab, name, query, rng) for name, query in BELOW.items()]
        dependents = [
            Dependent(lab, name, query) for name, _, query in cases("models") if name in DEPENDENTS
        ]
        fill(lab)
    writer = writer_of(lab, rng)
    for _ in range(3):
        writer.write(20)
        with shadowed(lab):
            for model in below:
                model.catch_up()
            fill(lab)
    assert lab.execute("select error from cdc.dependent_model where error is not null") == []
    for each in dependents:
        assert each.differences() == [], each.name
        assert each.audited()[0] == 0, each.name


def test_where_an_array_is_a_text_models_stop_and_nothing_is_wrong(cluster: Cluster) -> None:
    """PostgreSQL itself then knows no `=` of two arrays of texts, not even by its schema."""
    rng = Random(1)
    with Lab.following(cluster.dsn(empty_database(cluster).name), TYPES + TABLES) as lab:
        model = Model(lab, "many", "select name, count(*) as n from {a} group by 1", rng)
        writer = Writer(lab, rng)
        writer.write(10)
        model.catch_up()
        lab.execute("create cast (text[] as text) with inout as implicit")
        clear = "select '{}'::text[] operator(pg_catalog.=) '{}'::text[]"
        writer.write(10)
        lab.execute("discard plans")
        for fails in (partial(lab.execute, clear), model.catch_up):
            with pytest.raises(errors.AmbiguousFunction):
                fails()
        lab.execute("drop cast (text[] as text)")
        model.catch_up()
        assert model.differences() == []
