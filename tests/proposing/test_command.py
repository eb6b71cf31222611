"""`loader init --query` as a person uses it: what it writes and says, and when it writes nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from testkit.databases import Database
from tests.integration.test_init import contents

SALES = """
select c.country, (o.placed_at at time zone 'Europe/Berlin')::date as day, count(*) as orders, sum(o.amount) as sales
from orders as o join customers as c on c.id = o.customer_id
where o.state = 'paid' and o.shop_id = 1 /* :shop */
group by 1, 2
having count(*) > 1
order by sales desc
limit 10;
"""


@pytest.fixture
def shop(source: Database) -> Database:
    source.execute(
        "create table customers (id bigint primary key, country text not null);"
        "create table orders (id bigint primary key, customer_id bigint not null, shop_id int,"
        " state text, amount numeric(10, 2), placed_at timestamptz not null);"
        "insert into customers select n, 'land ' || n % 3 from generate_series(1, 30) as n;"
        "insert into orders select n, n % 30 + 1, n % 2, 'paid', n % 70, '2026-11-01 12:00+00'"
        " from generate_series(1, 300) as n;"
        "alter table orders replica identity full;"
        "analyze customers, orders"
    )
    return source


def asked(folder: Path, text: str) -> str:
    path = folder / "sales.sql"
    path.write_text(text)
    return str(path)


def test_a_query_becomes_a_project_that_setup_takes(shop: Database, tmp_path: Path) -> None:
    project = tmp_path / "live"
    said = shop.must("init", str(project), "--query", asked(tmp_path, SALES))
    assert "sales: same rows: 3, missing 0, surplus 0 (all rows)" in said
    assert "fact over models: sales_counts_orders x customers_rows, found by customer_id" in said
    assert "live/models/sales.sql" in said
    files = contents(project)
    models = {Path(name).stem for name in files if name.endswith(".sql")}
    assert models == {"sales", "sales_counts", "sales_counts_orders", "customers_rows"}
    assert {f"models/{name}.yml" for name in models} < files.keys()
    assert files["models/sales.sql"].startswith("{{ config(materialized='view') }}")
    assert "shop_id = 1" in files["models/sales.sql"]
    assert "limit 10" in files["models/sales.sql"]
    environment = {"DBT_PROJECT_DIR": str(project), "DBT_PROFILES_DIR": str(project)}
    for command in ("deps", "compile"):
        shop.dbt(command, **environment)
    manifest = project / "target" / "manifest.json"
    said = shop.must("setup", "--manifest", str(manifest))
    assert "sales_counts" in said


def test_a_placeholder_is_kept_for_the_application(shop: Database, tmp_path: Path) -> None:
    text = SALES.replace("1 /* :shop */", "%(shop)s")
    code, said = shop.refused("init", str(tmp_path / "live"), "--query", asked(tmp_path, text))
    assert (code, "The proof needs a value of shop" in said, "--value shop=" in said) == (
        2,
        True,
        True,
    )
    shop.must(
        "init", str(tmp_path / "live"), "--query", str(tmp_path / "sales.sql"), "--value", "shop=1"
    )
    files = contents(tmp_path / "live")
    assert "shop_id = %(shop)s" in files["analyses/sales.sql"]
    assert "models/sales.sql" not in files


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("select string_agg(country, ',') from customers", "string_agg() needs each row"),
        (
            "select count(*) from orders where shop_id = 99 /* :shop */ group by state",
            "proves nothing",
        ),
    ],
)
def test_what_is_not_kept_writes_nothing(
    shop: Database, tmp_path: Path, text: str, words: str
) -> None:
    code, said = shop.refused("init", str(tmp_path / "live"), "--query", asked(tmp_path, text))
    assert (code, words in said, "Try: " in said) == (2, True, True), said
    assert not (tmp_path / "live").exists()


def test_a_query_or_a_table_is_needed(shop: Database, tmp_path: Path) -> None:
    for more in ((), ("--table", "orders", "--query", asked(tmp_path, SALES))):
        code, said = shop.refused("init", str(tmp_path / "live"), *more)
        assert (code, "a query or a table" in said) == (2, True)


def test_two_queries_share_the_rows_that_they_join(shop: Database, tmp_path: Path) -> None:
    second = SALES.replace("o.state = 'paid' and ", "").replace("country", "id")
    shop.must("init", str(tmp_path / "live"), "--query", asked(tmp_path, SALES + second))
    names = [Path(name).stem for name in contents(tmp_path / "live") if "rows.sql" in name]
    assert names == ["customers_rows"]
