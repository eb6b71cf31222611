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
from tests.queries.lab import Lab, Model
from tests.queries.models_lab import Above, Below, fill

PAGE = (Path(__file__).parents[2] / "docs" / "models.md").read_text()
SHOP = """
create table lab.orders (
    id bigint primary key, placed_at timestamptz not null, sent_at timestamptz, channel text,
    status text not null, amount numeric(12, 2), discount numeric(12, 2), tags text[], details jsonb
);
create table lab.old_orders (like lab.orders including all);
create table lab.refunds (id bigint primary key, amount numeric(12, 2));
create table lab.clicks (id bigint primary key, clicked_ms bigint);
create table lab.customers (id bigint primary key, name text, country text, is_test boolean);
"""
ORDERS = """
insert into lab.{} select
    n, '2024-03-30 20:00+00'::timestamptz + n * interval '47 minutes',
    case when n % 3 > 0 then '2024-04-04 00:00+00'::timestamptz end,
    (array['web', 'shop', null])[1 + n % 3], (array['paid', 'new', 'draft', 'paid'])[1 + n % 4],
    n * 2.5, nullif(n % 5, 0), (array['{{a,b}}', '{{}}', null, '{{c}}'])[1 + n % 4]::text[],
    jsonb_build_object(
        'country', 'c' || n % 2, 'device', jsonb_build_object('kind', n % 3), 'points', n
    )
from generate_series(1, 90) as n
"""
CHANGES = [
    "insert into lab.refunds values (1, 3), (2, 4.5), (3, null);"
    "insert into lab.clicks values (1, 1711835999999), (2, 1711836000000), (3, null)",
    ORDERS.format("orders") + ";" + ORDERS.format("old_orders"),
    "update lab.orders set status = 'paid', amount = amount + 1, tags = tags || array['d'],"
    " placed_at = placed_at + interval '1 day', channel = 'phone' where id < 40;"
    "update lab.refunds set amount = 9 where id < 3; delete from lab.clicks where id = 2",
    "delete from lab.orders where id > 60; delete from lab.old_orders where id > 80",
]


def models() -> dict[str, tuple[str, str]]:
    """Return config and query by the heading before them, the first of each heading."""
    found = {}
    for section in re.split("^#+ ", PAGE, flags=re.MULTILINE)[1:]:
        if made := re.search(r"```sql\n\{\{ config\((.*?)\) \}\}\n(.*?)```", section, re.DOTALL):
            query = re.sub(r"\{\{ source\('shop', '(\w+)'\) \}\}", r"{\1}", made[2])
            found[section.partition("\n")[0]] = made[1], query
    return found


MODELS = models()


def following(cluster: Cluster, tables: str) -> Iterator[Lab]:
    lab = Lab(cluster.dsn(empty_database(cluster).name), tables)
    for table in re.findall(r"create table lab\.(\w+)", tables):
        lab.follow(table)
    yield lab
    lab.connection.close()


@pytest.fixture(scope="module")
def shop(cluster: Cluster) -> Iterator[Lab]:
    yield from following(cluster, SHOP)


def test_the_page_has_a_query_and_its_recipes() -> None:
    assert len(MODELS) == 12


@pytest.mark.parametrize("title", MODELS)
def test_a_query_of_the_page_is_kept(shop: Lab, title: str) -> None:
    config, query = MODELS[title]
    options = eval(f"dict({config})")
    assert options.pop("materialized") == "waltally"
    if "ignore_deletes" in options:
        options["ignore_deletes"] = [
            table.replace("shop.", "lab.") for table in options["ignore_deletes"]
        ]
    if title == "Kinds":
        assert shop.compile(query, **options)["kind"] == "rows"
        return
    shop.clear()
    model = Model(shop, f"m{list(MODELS).index(title)}", query, Random(title), **options)
    for change in CHANGES:
        shop.execute(change)
        model.catch_up()
        assert model.differences() == []
    assert shop.value(f"select count(*) from lab.{model.name}") > 0


REFERENCE = (Path(__file__).parents[2] / "docs" / "reference.md").read_text()
TYPES = (
    *("boolean", "smallint", "integer", "bigint", "numeric", "real", "double precision", "money"),
    *("text", "character varying", "uuid", "bytea", "date", "timestamp without time zone", "jsonb"),
    *("timestamp with time zone", "time without time zone", "interval", "bit", "inet"),
)
AGGREGATES = """
select own.call, own.proname, own.type from (
    select
        p.proname::text, type, case
            when a.aggkind = 'o' then format(
                '%%s(%%s) within group (order by null::%%s)', p.proname,
                case a.aggnumdirectargs when 1 then 'null::' || p.proargtypes[0]::regtype else '' end, type
            )
            else format(
                '%%s(null::%%s%%s)', p.proname, type, case p.proname
                    when 'string_agg' then format(', '',''::%%1$s order by null::%%1$s', type)
                    when 'array_agg' then format(' order by null::%%s', type)
                    else (select string_agg(', null::' || format_type(later, null), '' order by place)
                        from unnest(p.proargtypes::oid[]) with ordinality as one (later, place) where place > 1)
                end
            )
        end as call
    from pg_aggregate as a
    inner join pg_proc as p on p.oid = a.aggfnoid and p.pronamespace = 'pg_catalog'::regnamespace
    cross join unnest(%s::text[]) as type
    where
        a.aggkind <> 'h'
        and p.proargtypes[a.aggnumdirectargs] in
            (type::regtype, '"any"'::regtype, 'anynonarray'::regtype, 'anyelement'::regtype)
) as own
"""


def test_the_aggregates_of_the_reference_are_those_that_are_taken(shop: Lab) -> None:
    listed: dict[str, str] = {}
    table = REFERENCE.partition("## Aggregates\n")[2].partition("\n## ")[0]
    for names, types in re.findall(r"^\| (`.+?`) \| (.+?) \|", table, re.MULTILINE):
        spelled = types.replace("`varchar`", "`character varying`")
        spelled = re.sub(
            "`(timestamp)(tz)?`", lambda m: f"`{m[1]} with{'out' * (not m[2])} time zone`", spelled
        )
        listed |= dict.fromkeys(re.findall(r"`([\w.]+)`", names), spelled)
    calls = shop.execute(AGGREGATES, list(TYPES))
    assert listed.keys() - {"cdc.percentile_disc"} <= {name for _, name, _ in calls}

    def reasons(*aggregates: str) -> str:
        """Return why these are refused, but that a fact cannot have what a roll-up can."""
        asked = ", ".join(f"{call} as a{place}" for place, call in enumerate(aggregates))
        with pytest.raises(psycopg2.Error) as refused:
            shop.compile(f"select {asked}, mode() within group (order by id) as m from {{orders}}")
        said = str(refused.value.diag.message_primary)
        allowed = r"(\w+\(\)|DISTINCT \w+ \w+ \w+) cannot be taken back row by row \([^)]+\)"
        return re.sub(allowed, "", said)

    def is_listed(name: str, type_: str) -> bool:
        types = listed.get(name, "")
        return (types.startswith("any type") and type_ not in types) or f"`{type_}`" in types

    assert reasons(*(call for call, *of in calls if is_listed(*of))).strip(".\n") == ""
    others = {name: call for call, name, _ in calls if name not in listed}
    said = reasons(*others.values())
    assert others and [name for name in others if f"{name}(" not in said] == []
    for call, name, type_ in calls:
        if name in listed and not is_listed(name, type_):
            assert reasons(call).strip(".\n"), call


BELOW = {
    "customer_days": (
        "select customer_id, (placed_at at time zone 'UTC')::date as day, count(*) as orders "
        "from {orders} group by 1, 2"
    ),
    "each_order": "select id, customer_id, status from {orders}",
    "customers": "select id, country from {people}",
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
TABLES = """
create table lab.orders (id bigint primary key, customer_id bigint, placed_at timestamptz, status text);
create table lab.people (id bigint primary key, country text);
create table lab.memberships (customer_id bigint, club_id bigint, primary key (customer_id, club_id));
create table lab.member (id bigint primary key, name text, team_id bigint, is_active boolean);
create table lab.team (id bigint primary key, is_archived boolean);
create table lab.project_grant (id bigint primary key, project text, team_id bigint, role text);
"""
HISTORY = [
    "insert into lab.member select n, 'm' || n, n % 3, n <> 4 from generate_series(1, 9) as n",
    "insert into lab.team select n, n = 2 from generate_series(0, 2) as n",
    "insert into lab.project_grant select n, 'p' || n % 3, n % 3, 'write' from generate_series(1, 9) as n",
    "insert into lab.people select n, 'c' || n % 2 from generate_series(1, 7) as n",
    "insert into lab.memberships select n, m from generate_series(1, 7) as n cross join generate_series(1, n % 3) as m",
    "insert into lab.orders select n, nullif(n % 5, 0), '2026-01-01 20:00+00'::timestamptz + n * interval '7 hours', "
    "(array['new', 'paid'])[1 + n % 2] from generate_series(1, 40) as n",
    "update lab.orders set status = 'sent', customer_id = 6 where id in (37, 38)",
    "delete from lab.orders where id > 35 or customer_id = 3",
    "update lab.people set country = 'c0' where id > 5",
    "update lab.memberships set customer_id = 3, club_id = 9 where customer_id = 4",
    "update lab.team set is_archived = id = 0; update lab.member set team_id = 1 where id = 2",
    "update lab.project_grant set role = 'read' where id = 1; delete from lab.member where id = 7",
    "truncate lab.orders",
]


@pytest.fixture(scope="module")
def lab(cluster: Cluster) -> Iterator[Lab]:
    yield from following(cluster, TABLES)


def test_each_recipe_over_models_is_kept(lab: Lab) -> None:
    above = {
        name: re.sub(r"{{ ref\('(\w+)'\) }}", r"{\1}", query)
        for name, query in re.findall(r"^-- (\w+)\.sql\n(.*?)(?=^-- |^```)", PAGE, re.S | re.M)
    }
    assert len(above) == 8
    below = [Below(lab, name, query, Random(name)) for name, query in BELOW.items()]
    models = [Above(lab, name, query) for name, query in above.items()]
    fill(lab)
    for statement in HISTORY:
        lab.transact(statement)
        for model in below:
            model.catch_up()
        if not statement.startswith("truncate"):
            assert fill(lab) == 0
        fill(lab)
        assert [(one.name, one.differences()) for one in models if one.differences()] == []
        if "lab.orders" in statement and "truncate" not in statement:
            assert all(lab.value(f"select count(*) from lab.{one.name}") for one in models)
