"""Each query of docs/models.md is taken, and its model equals it after changes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from testkit.databases import empty_database
from testkit.servers import Cluster
from tests.queries.lab import Lab, Model
from tests.queries.models_lab import Above, Below, fill
from tests.queries.rows_lab import RowsLab

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


@pytest.fixture(scope="module")
def shop(cluster: Cluster) -> Iterator[Lab]:
    lab = Lab(cluster.dsn(empty_database(cluster).name), SHOP)
    lab.execute("create schema lab_models")
    yield lab
    lab.connection.close()


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
        model.step("add", shop.last_change())
        assert model.differences() == []
    assert shop.value(f"select count(*) from lab_models.{model.name}") > 0


BELOW = {
    "customer_days": (
        "select customer_id, (placed_at at time zone 'UTC')::date as day, count(*) as orders "
        "from {orders} group by 1, 2"
    ),
    "each_order": "select id, customer_id, status from {orders}",
    "customers": "select id, country from {people}",
    "members": "select customer_id, club_id from {memberships}",
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
"""
HISTORY = [
    "insert into lab.people select n, 'c' || n % 2 from generate_series(1, 7) as n",
    "insert into lab.memberships select n, m from generate_series(1, 7) as n cross join generate_series(1, n % 3) as m",
    "insert into lab.orders select n, nullif(n % 5, 0), '2026-01-01 20:00+00'::timestamptz + n * interval '7 hours', "
    "(array['new', 'paid'])[1 + n % 2] from generate_series(1, 40) as n",
    "update lab.orders set status = 'sent', customer_id = 6 where id in (37, 38)",
    "delete from lab.orders where id > 35 or customer_id = 3",
    "update lab.people set country = 'c0' where id > 5",
    "update lab.memberships set customer_id = 3, club_id = 9 where customer_id = 4",
    "truncate lab.orders",
]


def test_each_recipe_over_models_is_kept(cluster: Cluster) -> None:
    above = {
        name: re.sub(r"{{ ref\('(\w+)'\) }}", r"{\1}", query)
        for name, query in re.findall(r"^-- (\w+)\.sql\n(.*?)(?=^-- |^```)", PAGE, re.S | re.M)
    }
    assert len(above) == 7
    lab = RowsLab(cluster.dsn(empty_database(cluster).name), TABLES)
    for table in ("orders", "people", "memberships"):
        lab.follow(table, has_old_rows=True)
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
    lab.connection.close()
