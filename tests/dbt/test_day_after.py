"""A live model and dbt, beside a loader and readers who never find it missing or half."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psycopg2

from testkit.commands import wait_until
from testkit.system import System
from tests.dbt.test_life import KEPT, ORDERS, begin, put
from tests.dbt.test_life import shop as shop

TOTALS = KEPT + "select count(*) as channels, sum(n) as n from {{ ref('orders') }}"
KINDS = ORDERS.replace("select ", "select kind, ").replace("group by 1", "group by 1, 2")
ROWS = 60
INSERT = f"insert into orders select n, 'c' || n % 3, n from generate_series(1, {ROWS}) as n"
MOVE = "update orders set channel = 'c' || (substr(channel, 2)::int + 1) % 5 where id % 7 = 1"
STATES = "select model_name, state from cdc.model_state where state <> 'follows'"


@contextmanager
def reading(system: System, query: str, answer: object) -> Iterator[None]:
    """Have somebody ask the query all the time; fail where the answer is another one."""
    done = threading.Event()
    others: list[object] = []

    def ask() -> None:
        session = system.session("postgres")
        while not done.is_set():
            try:
                ((found,),) = session.ask(query)
            except Exception as error:
                found = error
            if found != answer:
                others.append(found)
        session.close()

    reader = threading.Thread(target=ask)
    reader.start()
    try:
        yield
    finally:
        done.set()
        reader.join()
    assert not others, (len(others), others[:3])


def is_live(system: System, model: str, columns: str, schema: str = "analytics") -> None:
    """Return once a model by these columns is exact, after one more change."""
    system.source.execute(MOVE)
    asked = f"select {columns}, count(*) from orders group by {columns} order by {columns}"
    stored = f"select {columns}, n from {schema}.{model} order by {columns}"

    def is_exact() -> bool:
        try:
            return system.target.execute(stored) == system.source.execute(asked)
        except psycopg2.errors.UndefinedColumn:
            return False

    wait_until(is_exact, f"{model} is exact; {system.target.execute(STATES)}")


def saved(system: System) -> Path:
    """Return a folder with the manifest of what was built last."""
    folder = system.home / "saved"
    folder.mkdir(exist_ok=True)
    (folder / "manifest.json").write_bytes((system.home / "target" / "manifest.json").read_bytes())
    return folder


def contract(system: System, kind: str) -> None:
    """Have the model's YAML say which type its count has."""
    assert system.project is not None
    types = {"kind": "text", "channel": "text", "n": kind}
    model = {
        "name": "orders",
        "config": {"contract": {"enforced": True}},
        "columns": [{"name": name, "data_type": type_} for name, type_ in types.items()],
    }
    (system.project / "models" / "orders.yml").write_text(json.dumps({"models": [model]}))


def relations(system: System) -> dict[str, tuple[str, str]]:
    """Return where each model is, and its state."""
    rows = system.target.execute("select model_name, relation, state from cdc.model_state")
    return {name: (relation, state) for name, relation, state in rows}


def test_a_model_lives_with_dbt_alone(shop: System) -> None:
    shop.source.execute(INSERT)
    put(shop, "totals", TOTALS)
    with shop.start("--build") as running, ExitStack() as readers:
        running.wait_for("following the slot")
        shop.do("dbt", "build")
        begin(shop)
        shop.source.execute("truncate orders;" + INSERT)
        is_live(shop, "orders", "channel")
        total = "select sum(n)::int from analytics.{}"
        wait_until(lambda: shop.target.value(total.format("totals")) == ROWS, "totals too")
        for model in ("orders", "totals"):
            readers.enter_context(reading(shop, total.format(model), ROWS))

        # The table gets a column, and the query groups by it.
        shop.source.execute("alter table orders add kind text not null default 'k'")
        put(shop, "orders", KINDS)
        shop.do("dbt", "build")
        is_live(shop, "orders", "channel")
        shop.spark_job("spark-submit spark/seed.py --model orders")
        is_live(shop, "orders", "kind, channel")
        shop.do("dbt", "build", "--full-refresh", "--select", "orders")
        is_live(shop, "orders", "kind, channel")

        # One that is refused is mended and tried again.
        put(shop, "more", ORDERS.replace("count(*)", "max(amount)"))
        assert shop.call("dbt", "run").returncode == 1
        put(shop, "more", "{{ config(materialized='view') }} select 1 as one")
        assert "1 of 1 OK created sql view model analytics.more" in shop.do("dbt", "retry")
        put(shop, "more")

        # A developer's model reads those of production; what is cloned is a view of them.
        state = ("--state", str(saved(shop)))
        shop.do("dbt", "run", "--select", "totals", "--defer", *state, DBT_SCHEMA="dev")
        assert relations(shop)["dev.totals"] == ("dev.totals", "follows")
        assert shop.target.value("select n from dev.totals") == ROWS
        shop.do("dbt", "clone", *state, DBT_SCHEMA="clones")
        assert shop.target.value("select sum(n) from clones.orders") == ROWS

        contract(shop, "integer")
        done = shop.call("dbt", "run", "--select", "orders")
        assert "n is bigint, and the contract says integer" in done.stdout
        contract(shop, "bigint")
        shop.do("dbt", "run", "--select", "orders")
        is_live(shop, "orders", "kind, channel")

        # Until here nobody has found one missing or half. In another place it is another table.
        readers.close()
        put(shop, "orders", KINDS.replace("materialized=", "alias='by_kind', materialized="))
        shop.do("dbt", "run")
        is_live(shop, "by_kind", "kind, channel")
        assert relations(shop)["orders"] == ("analytics.by_kind", "follows")


def test_each_version_of_a_model_is_one_and_a_removed_one_comes_back(shop: System) -> None:
    assert shop.project is not None
    put(shop, "orders_v1", ORDERS)
    put(shop, "orders_v2", ORDERS.replace("channel", "amount"))
    put(shop, "orders")
    versions = shop.project / "models" / "orders.yml"
    versions.write_text("models: [{name: orders, latest_version: 2, versions: [{v: 1}, {v: 2}]}]")
    assert "Everything is set up" in shop.must("setup", "--check")
    shop.do("dbt", "run")
    shop.must("run", "--once")
    begin(shop)
    shop.catch_up()
    both = {name: (f"analytics.{name}", "follows") for name in ("orders_v1", "orders_v2")}
    assert relations(shop) == both
    versions.write_text("models: [{name: orders, latest_version: 2, versions: [{v: 2}]}]")
    put(shop, "orders_v1")
    shop.do("dbt", "run", DBT_SCHEMA="dev")
    assert "no dbt project any more" not in shop.loader("status").stdout, "of another target"
    shop.do("dbt", "run")
    assert "orders_v1 is in no dbt project any more" in shop.loader("status").stdout
    assert "orders_v2 is in no" not in shop.loader("status").stdout
    shop.must("forget", "dev.orders_v2")
    forget = ("run-operation", "waltally.forget", "--args", "{model: orders_v1}")
    assert "forgot analytics.orders_v1; the table stays" in shop.do("dbt", *forget)
    assert relations(shop) == {"orders_v2": both["orders_v2"]}
    assert "No model orders_v1 is installed" in shop.call("dbt", *forget).stdout
    put(shop, "orders_v1", ORDERS)
    versions.write_text("models: [{name: orders, latest_version: 2, versions: [{v: 1}, {v: 2}]}]")
    shop.do("dbt", "run")
    begin(shop)
    shop.catch_up()
    assert relations(shop) == both
