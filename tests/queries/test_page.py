"""Each query of docs/models.md is taken, and its model equals it after changes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from random import Random

import psycopg2
import pytest

from testkit.databases import empty_database
from testkit.servers import Cluster
from tests.queries.cases import rendered
from tests.queries.lab import Lab, Model
from tests.queries.models_lab import Below, Dependent, fill
from tests.queries.writer import Writer, around

PAGE = (Path(__file__).parents[2] / "docs" / "models.md").read_text()
TABLES = """
create table lab.orders (
    id bigint primary key, customer_id bigint, placed_at timestamptz not null, sent_at timestamptz,
    channel text, status text not null, amount numeric(12, 2), discount numeric(12, 2), tags text[], details jsonb
);
create table lab.old_orders (like lab.orders including all);
create table lab.refunds (id bigint primary key, amount numeric(12, 2));
create table lab.clicks (id bigint primary key, clicked_ms bigint);
create table lab.customers (id bigint primary key, name text, country text, is_test boolean);
create table lab.memberships (customer_id bigint, club_id bigint, primary key (customer_id, club_id));
create table lab.member (id bigint primary key, name text, team_id bigint, is_active boolean);
create table lab.team (id bigint primary key, is_archived boolean);
create table lab.project_grant (id bigint primary key, project text, team_id bigint, role text);
"""
VALUES = {
    "status": ("'paid'", "'new'", "'draft'"),
    "role": ("'read'", "'write'"),
    "team.id": ("1", "2", "3", "4"),
    "is_archived": ("true", "false", "false"),
    "clicked_ms": ("null", "1711835999999", "1711836000000"),
    "details": (
        *("null", "'{}'", """'{"country": "a", "points": 3}'"""),
        """'{"country": "b", "points": 1.5, "device": {"kind": 1}}'""",
    ),
}


MODELS = {
    title: rendered(model.replace("'shop.", "'lab."))
    for title, model in re.findall(
        r"^#+ (.*)\n(?:(?!#).*\n)*?```sql\n(\{\{ config[^`]*)```", PAGE, re.MULTILINE
    )
}
"""The first model below each heading."""


@pytest.fixture(scope="module")
def lab(cluster: Cluster) -> Iterator[Lab]:
    with Lab.following(cluster.dsn(empty_database(cluster).name), TABLES) as made:
        yield made


def history(lab: Lab, rng: Random) -> Iterator[None]:
    """Fill the tables, and change them at random."""
    writer = Writer.of(
        lab, rng, lab.sources, VALUES, around("2023-12-31 23:00", "2026-03-29 01:00")
    )
    writer.truncates = False
    for table in writer.pools:
        lab.transact(*(writer.insert(table) for _ in range(30)))
    for _ in range(6):
        yield
        writer.write(30)
    lab.execute("truncate lab.orders")
    yield


def test_the_page_has_a_query_and_its_recipes() -> None:
    assert len(MODELS) == 10


@pytest.mark.parametrize("title", MODELS)
def test_a_query_of_the_page_is_kept(lab: Lab, title: str) -> None:
    query, options = MODELS[title]
    assert options.pop("materialized") == "waltally"
    lab.clear()
    rng = Random(title)
    model = Model(lab, "kept", query, rng, **options)
    counts = []
    for _ in history(lab, rng):
        model.catch_up()
        assert model.differences() == []
        counts.append(lab.value("select count(*) from lab.kept"))
    assert all(counts[:-1])


REFERENCE = (Path(__file__).parents[2] / "docs" / "reference.md").read_text()
TYPES = (
    *("boolean", "smallint", "integer", "bigint", "numeric", "real", "double precision", "money"),
    *("text", "character varying", "uuid", "bytea", "date", "timestamp without time zone", "jsonb"),
    *("timestamp with time zone", "time without time zone", "interval", "bit", "inet"),
)
AGGREGATES = """
select p.proname::text, a.aggkind::text, a.aggnumdirectargs::integer,
    array(select format_type(own, null) from unnest(p.proargtypes::oid[]) as own)
from pg_aggregate as a inner join pg_proc as p on p.oid = a.aggfnoid
where a.aggkind <> 'h' and p.pronamespace = 'pg_catalog'::regnamespace and p.pronargs > 0
"""


def calls_of(lab: Lab) -> Iterator[tuple[str, str, str]]:
    """Yield each aggregate that takes values of each type, with its name and that type."""
    for name, kind, direct, arguments in lab.execute(AGGREGATES):
        before, (own, *after) = arguments[:direct], arguments[direct:]
        for type_ in TYPES if own in ('"any"', "anynonarray", "anyelement") else {own} & {*TYPES}:
            nulls = [f"null::{one}" for one in before]
            more = {
                "array_agg": f" order by null::{type_}",
                "string_agg": f", ','::{type_} order by null::{type_}",
            }.get(name, "".join(f", null::{one}" for one in after))
            call = f"{name}(null::{type_}{more})"
            if kind == "o":
                call = f"{name}({', '.join(nulls)}) within group (order by null::{type_})"
            yield call, name, type_


@pytest.mark.parametrize(
    "call",
    [
        "array_agg(status{})",
        "string_agg(status, ','{})",
        "json_agg(id{})",
        "jsonb_object_agg(id, status{})",
    ],
)
def test_what_collects_values_needs_an_order_that_leaves_no_choice(lab: Lab, call: str) -> None:
    assert f"`{call.partition('(')[0]}`" in REFERENCE.partition("## Aggregates\n")[2]
    for order, reason in (
        ("", "depends on the order of rows"),
        (" order by status, id", "ORDER BY in an aggregate"),
    ):
        with pytest.raises(psycopg2.Error) as refused:
            lab.compile(f"select {call.format(order)} as x from {{orders}}")
        assert reason in str(refused.value.diag.message_primary)


def test_every_other_aggregate_is_one_of_a_roll_up(lab: Lab) -> None:
    collects = "any_|array_|string_|json|xml"
    calls = [call for call, name, _ in calls_of(lab) if not re.match(collects, name)]
    asked = ", ".join(f"{call} as a{place}" for place, call in enumerate(calls))
    with pytest.raises(psycopg2.Error) as refused:
        lab.compile(f"select {asked} from {{orders}}")
    said = str(refused.value.diag.message_primary)
    assert "cannot be taken back row by row" in said and "depends on the order" not in said.replace(
        "() of floats depends", ""
    )


BELOW = {
    "customer_days": (
        "select customer_id, (placed_at at time zone 'UTC')::date as day, count(*) as orders "
        "from {orders} group by 1, 2"
    ),
    "each_order": "select id, customer_id, status from {orders}",
    "each_customer": "select id, country from {customers}",
    "members": "select customer_id, club_id from {memberships}",
    "staff": "select id, name, team_id, is_active from {member}",
    "teams": "select id, is_archived from {team}",
    "grants": "select id, project, team_id, role from {project_grant}",
    "berlin_days": (
        "select (placed_at at time zone 'Europe/Berlin')::date as day, count(*) as orders "
        "from {orders} group by 1"
    ),
    "paris_days": (
        "select (placed_at at time zone 'Europe/Paris')::date as day, count(*) as orders "
        "from {orders} where customer_id > 1 group by 1"
    ),
}


def test_each_recipe_over_models_is_kept(lab: Lab) -> None:
    dependents = {
        name: rendered(query)[0].replace("{customers}", "{each_customer}")
        for name, query in re.findall(r"^-- (\w+)\.sql\n(.*?)(?=^-- |^```)", PAGE, re.S | re.M)
    }
    assert len(dependents) == 8
    lab.clear()
    rng = Random(1)
    below = [Below(lab, name, query, rng) for name, query in BELOW.items()]
    models = [Dependent(lab, name, query) for name, query in dependents.items()]
    filled, counts = [], []
    for _ in history(lab, rng):
        for model in below:
            model.catch_up()
        filled.append(fill(lab))
        assert [(one.name, one.differences()) for one in models if one.differences()] == []
        counts.append([lab.value(f"select count(*) from lab.{one.name}") for one in models])
    # What is truncated lets its dependents be filled again.
    assert filled[0] and not any(filled[1:-1]) and filled[-1]
    assert all(map(any, zip(*counts, strict=True)))
