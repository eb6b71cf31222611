"""A dbt project whose models are queries: its life with setup, dbt, seed, loader and cdc.apply.

The tests share one system. Each leaves it as it must be: with models that equal their queries.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from random import Random

import pytest

from testkit.databases import empty_database
from testkit.fixtures import WAREHOUSE
from testkit.servers import Cluster
from tests.dbt.shop import STOCK, Shop

DOWNSTREAM = ("busy_channels", "idle_places")
"""The models over models."""
QUERIES = (
    *("sales", "both", "current_orders", "nightly", "stock"),
    *DOWNSTREAM,
)


@pytest.fixture(scope="module")
def shop(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    """Models that are seeded, made in the order that a newcomer takes."""
    with empty_database(cluster, WAREHOUSE) as database:
        made = Shop(database, tmp_path_factory.mktemp("shop"))
        # dbt made it before, with a column that goes.
        made.source.execute(
            "create schema analytics; create table analytics.nightly as"
            " select 'old' as channel, 7::bigint as order_count, 1 as gone"
        )
        made.must("setup")
        made.built = made.do("dbt", "build", "--exclude", "test_type:unit")
        made.waited = made.states()
        made.write(Random(1))
        made.must("run", "--once")
        with made.read_all_along():
            made.seed()
        made.catch_up()
        yield made


def test_a_new_model_waits_for_its_seed_and_dbt_says_so(shop: Shop) -> None:
    for name in QUERIES:
        why = r"analytics\.\w+, which it reads, " if name in DOWNSTREAM else "it waits for its seed"
        assert re.search(rf"model analytics\.{name} \.+ \[WAITS: {why}", shop.built)
        assert shop.waited[name] == "waits"
    assert re.search(r"models_follow \.+ \[WARN \d+ in", shop.built)
    assert set(shop.states().values()) == {"follows"}
    assert "PASS=1 WARN=0" in shop.do("dbt", "test", "--select", "models_follow")
    assert shop.compare(*QUERIES) == {}


def test_a_table_of_dbt_s_is_read_until_the_baseline_takes_its_place_at_once(shop: Shop) -> None:
    assert (("old", 7),) in shop.seen
    for rows in shop.seen - {(("old", 7),)}:
        assert ("old", 7) not in rows and len(rows) > 1, rows
    gone = (
        "select count(*) from pg_attribute where attrelid = 'analytics.nightly'::regclass"
        " and attname = 'gone'"
    )
    assert shop.target.value(gone) == 0


def test_models_equal_their_queries_however_the_changes_are_cut(shop: Shop) -> None:
    for seed, size in enumerate((1, 3, 20, 3, 1, 200_000)):
        shop.write(Random(seed))
        shop.batch_of(size)
        shop.catch_up()
        assert shop.compare(*QUERIES) == {}, shop.states()
    exact = "select distinct cdc.exact_as_of(%s, name) is null from unnest(%s) as name"
    assert shop.target.execute(exact, shop.slot, list(QUERIES)) == [(False,)]


def test_dbt_s_own_config_means_what_it_always_means(shop: Shop) -> None:
    table = "'analytics.sales'::regclass"
    described = shop.target.value(f"select obj_description({table}, 'pg_class')")
    assert described == "A row per day in Berlin and channel."
    described = shop.target.value(f"select col_description({table}, 2)")
    assert described == 'Where it was sold; "web" or a shop\'s name.'
    indexes = "select count(*) from pg_indexes where tablename = 'sales' and indexdef ~ %s"
    assert shop.target.value(indexes, r"\(channel\)") == 1
    for granted in (table, "'analytics.sales_changes'"):
        assert shop.target.value(f"select has_table_privilege('pg_monitor', {granted}, 'select')")
    assert not shop.target.value(
        "select has_table_privilege('pg_monitor', 'analytics.both', 'select')"
    )
    hooks = "select moment, is_there from hook_call"
    assert shop.source.execute(hooks) == [("before", False), ("after", True)]

    # Few at a time: of many it is said that the model is to be read anew.
    shop.batch_of(3)
    shop.write(Random(7))
    shop.catch_up()
    shop.batch_of(200_000)
    # What stood there is built again from the baseline and the log.
    shop.write(Random(8))
    shop.target.execute("update analytics.sales set order_count = order_count + 1")
    shop.target.execute("update analytics.both set order_count = order_count")
    shop.must("run", "--once")
    said = shop.do("dbt", "run", "--select", "tag:dashboard", "--full-refresh")
    assert "PASS=1 " in said and "APPLIED up to" in said
    assert shop.source.execute(hooks)[2:] == [("before", True), ("after", True)]
    shop.catch_up()
    assert shop.compare(*QUERIES) == {}
    assert shop.target.value(
        "select bool_or(new ? 'day') and bool_or(new is null) from analytics.sales_changes"
    )
    shop.target.execute("update analytics.stock set pieces = pieces + 1")
    shop.do("dbt", "run", "--select", "stock", "--full-refresh")
    assert shop.compare("stock"), "its config says that it is not built again"
    shop.target.execute("update analytics.stock set pieces = pieces - 1")


def test_a_unit_test_has_the_model_s_zone_and_sources_of_any_type(shop: Shop) -> None:
    assert "PASS=2 WARN=0 ERROR=0" in shop.do("dbt", "test", "--select", "test_type:unit")


ORDERS = "{{ source('shop', 'orders') }}"
BY_CHANNEL = f"select channel, count(*) as n from {ORDERS}"
REFUSED = {
    "wrong_max": ("", f"select channel, max(amount) as most\nfrom {ORDERS} group by 1"),
    "wrong_clock": ("", BY_CHANNEL + "\nwhere placed_at > now() group by 1"),
    "wrong_column": ("", f"select chanel, count(*) as n\nfrom {ORDERS} group by 1"),
    "wrong_engine": (", engine='flink'", BY_CHANNEL + " group by 1"),
    "wrong_kind": (", engine='spark'", f"select id, channel from {ORDERS}"),
    "wrong_input": (", engine='spark'", "select count(*) as n from {{ ref('current_orders') }}"),
    "wrong_key": (", unique_key='n'", BY_CHANNEL + " group by 1"),
    "wrong_table": (", ignore_deletes=['public.other']", BY_CHANNEL + " group by 1"),
    "wrong_contract": ("", BY_CHANNEL + " group by 1"),
}
"""Config and query."""
CONTRACT = """
models:
  - name: wrong_contract
    config: {contract: {enforced: true}}
    columns: [{name: channel, data_type: text}, {name: n, data_type: numeric}]
"""


def test_a_refusal_is_the_same_sentence_in_setup_and_in_dbt(shop: Shop, cluster: Cluster) -> None:
    for name, (config, query) in REFUSED.items():
        text = f"{{{{ config(materialized='waltally'{config}) }}}}\n{query}"
        (shop.models / f"{name}.sql").write_text(text)
    contract = shop.models / "wrong_contract.yml"
    contract.write_text(CONTRACT)
    try:
        code, here = shop.refused("setup", "--check")
        with empty_database(cluster) as empty:
            _, there = shop.refused(
                "setup", "--check", LOADER_TARGET_DSN=cluster.dsn(empty.name), LOADER_SLOT="other"
            )
            kept = empty.execute("select nspname from pg_namespace where nspname ~ '^cdc'")
        built = shop.call("dbt", "run", "--select", *REFUSED)
    finally:
        for name in REFUSED:
            (shop.models / f"{name}.sql").unlink()
        contract.unlink()
    assert kept == []
    assert code and built.returncode
    said = " ".join(built.stdout.split())
    for name in REFUSED:
        [line] = [line for line in here.splitlines() if f"{name}: " in line]
        assert line in there
        sentence, _, place = line.split(f"{name}: ")[1].partition(" at: ")
        assert sentence in said, (sentence, said)
        assert f"correct models/{name}.sql. " in here
        assert bool(place) == (name == "wrong_column"), line
        assert f"model {name} (models/{name}.sql)" in said


def test_a_query_with_another_text_and_the_same_meaning_keeps_its_rows(shop: Shop) -> None:
    rows = "select xmin::text, ctid::text, * from analytics.nightly order by 2"
    before = shop.target.execute(rows)
    assert before
    (shop.models / "nightly.sql").write_text(
        "{{ config(materialized='waltally') }}\nwith\n-- the orders\norders as (\n"
        "    select * from {{ source('shop', 'orders') }}\n)\n\n"
        "select orders.channel, count( * ) as order_count\nfrom orders group by orders.channel",
    )
    assert "APPLIED up to" in shop.do("dbt", "run", "--select", "nightly")
    assert shop.target.execute(rows) == before
    assert shop.states()["nightly"] == "follows"


def test_a_changed_query_waits_for_its_seed_while_the_former_one_is_applied(shop: Shop) -> None:
    rows = "select channel, order_count from analytics.both order by 1"
    former = (
        "select channel, count(*) from (select channel from orders union all"
        " select channel from old_orders) as orders group by 1 order by 1"
    )
    shop.target.execute(f"create view public.both_shown as {rows}")
    shop.target.execute("grant select on analytics.both to pg_read_all_stats")
    path = shop.models / "both.sql"
    path.write_text(path.read_text().replace("sum(amount) as amount", "count(amount) as priced"))
    (shop.models / "both.yml").unlink()
    dice = Random(9)
    shop.write(dice)
    shop.catch_up()
    assert shop.target.execute(rows) == shop.source.execute(former), "before dbt has built it"
    said = shop.do("dbt", "run", "--select", "both")
    assert "its query has changed" in said and "spark/seed.py" in said
    shop.write(dice)
    shop.catch_up()
    assert shop.target.execute(rows) == shop.source.execute(former), "before it is seeded"
    assert shop.states()["both"] == "follows"
    shop.seed("both")
    shop.write(dice)
    shop.catch_up()
    assert shop.compare(*QUERIES) == {}
    assert shop.target.execute("select * from public.both_shown") == shop.source.execute(former)
    granted = "select has_table_privilege('pg_read_all_stats', 'analytics.both', 'select')"
    assert shop.target.value(granted)
    columns = (
        "select string_agg(column_name, ' ' order by ordinal_position) from"
        " information_schema.columns where table_name = 'both' and column_name !~ '^waltally_'"
    )
    assert shop.target.value(columns) == "channel order_count priced"


def test_a_column_that_is_renamed_at_the_source_stops_the_models_that_need_it(shop: Shop) -> None:
    shop.source.execute(f"alter table {STOCK} rename pieces to units")
    shop.source.execute(f"update {STOCK} set units = units + 1")
    shop.catch_up()
    assert shop.states()["stock"] != "follows", "a number without the change would be wrong"
    assert shop.states()["sales"] == "follows"
    code, said = shop.refused("setup", "--check")
    assert code and "pieces" in said and "models/stock.sql" in said
    path = shop.models / "stock.sql"
    path.write_text(path.read_text().replace("sum(pieces)", "sum(units)"))
    shop.do("dbt", "run", "--select", "stock")
    shop.seed("stock")
    shop.source.execute(f"update {STOCK} set units = units + 1 where id = 2")
    shop.catch_up()
    assert shop.states()["stock"] == "follows"
    assert shop.compare("stock") == {}
