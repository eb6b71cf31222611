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


def test_the_page_has_ten_recipes_and_at_most_2000_words() -> None:
    assert len(MODELS) == 12
    assert len(PAGE.split()) <= 2000


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
