"""A model's life with dbt alone, beside a loader that runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from testkit.commands import RunningLoader, wait_until
from testkit.databases import empty_database, paste
from testkit.model import manifest_of
from testkit.project import host_project
from testkit.servers import Cluster
from testkit.system import System

KEPT = "{{ config(materialized='waltally') }}\n"
SOURCES = "sources: [{name: app, schema: public, tables: [{name: orders}, {name: visits}]}]\n"
ORDERS = KEPT + "select channel, count(*) as n from {{ source('app', 'orders') }} group by 1"
VISITS = KEPT + "select page, count(*) as n from {{ source('app', 'visits') }} group by 1"


@pytest.fixture
def shop(cluster: Cluster, tmp_path: Path) -> Iterator[System]:
    """A dbt project of one model, over empty tables; the slot is made."""
    with empty_database(cluster) as database:
        database.execute(
            "create table orders (id int primary key, channel text, amount int);"
            "create table visits (id int primary key, page text);"
            "alter table orders replica identity full; alter table visits replica identity full"
        )
        system = System(database, tmp_path)
        system.project = host_project(tmp_path, {"orders": ORDERS})
        (system.project / "models" / "sources.yml").write_text(SOURCES)
        system.given |= {"LOADER_MANIFEST": "", "DBT_USE_COLORS": "false"}
        done = system.call("dbt", "run")
        said = (
            'Nothing is set up for waltally in schema "cdc" of this database. Try: `loader setup`'
        )
        assert (done.returncode, done.stdout.count(said) > 0) == (1, True), done.stdout
        # The order of the commands is nobody's business: setup sees no model.
        system.must("setup", LOADER_MANIFEST=str(manifest_of({})))
        yield system


def put(system: System, name: str, text: str = "") -> None:
    """Write the file of a model; without a text delete it."""
    assert system.project is not None
    path = system.project / "models" / f"{name}.sql"
    path.write_text(text) if text else path.unlink()


def wait_for(system: System, running: RunningLoader, model: str, table: str, key: str) -> None:
    """Return once the model is what its query gives."""
    stored = f"select {key}, n from analytics.{model} order by 1"
    asked = f"select {key}, count(*) from {table} group by 1 order by 1"

    def is_exact() -> bool:
        return system.target.execute(stored) == system.source.execute(asked)

    wait_until(is_exact, f"{model}: {running.said()}\n{system.states()}")


def begin(system: System) -> None:
    """Take the baseline of what is new, as a seed of empty tables does, once they are followed."""
    lacking = (
        "select count(*) from cdc.registered_model as own"
        " where cdc.held_since(own.slot_name, own.needed) is null"
    )
    wait_until(lambda: system.target.value(lacking) == 0, "the loader follows the new tables")
    at = system.source.value("select pg_current_wal_insert_lsn()")
    system.target.take_baseline(at=at)


def test_what_dbt_installs_is_followed_by_a_loader_that_runs(shop: System) -> None:
    order = "insert into orders select n, 'c' || n % 3, n from generate_series({0}, {0} + 8) as n"
    visit = "insert into visits select n, 'p' || n % 3 from generate_series({0}, {0} + 4) as n"
    with shop.start("--build") as running:
        running.wait_for("following the slot")
        shop.do("dbt", "run")
        running.wait_for("dbt has changed what is to be followed")
        begin(shop)
        shop.source.execute(order.format(1))
        wait_for(shop, running, "orders", "orders", "channel")

        put(shop, "visits", VISITS)
        shop.source.execute(visit.format(100))
        shop.do("dbt", "run")
        shop.source.execute(
            visit.format(200) + "; truncate visits; delete from orders where id < 4"
        )
        begin(shop)
        shop.source.execute(visit.format(300) + "; delete from visits where id = 301")
        wait_for(shop, running, "visits", "visits", "page")
        wait_for(shop, running, "orders", "orders", "channel")
        assert shop.states() == {"orders": "follows", "visits": "follows"}

        put(shop, "visits")
        assert shop.must("forget", "visits") == "forgot analytics.visits; the table stays\n"
        followed = "select count(*) from cdc.logged_table"
        wait_until(lambda: shop.target.value(followed) == 1, "its table is no longer followed")
        shop.source.execute(visit.format(400) + "; delete from orders where id = 5")
        wait_for(shop, running, "orders", "orders", "channel")
        assert shop.states() == {"orders": "follows"}


def test_what_a_new_table_lacks_is_said_with_its_sql_and_holds_up_no_other(shop: System) -> None:
    state = "select state, reason, remedy from cdc.model_state where model_name = 'visits'"

    def mend(reason: str) -> None:
        """Do what the state says, once it has this reason."""

        def is_said() -> bool:
            return any(reason in (said or "") for _, said, _ in shop.target.execute(state))

        wait_until(is_said, f"{reason}: {shop.target.execute(state)}\n{running.said()}")
        ((_, _, remedy),) = shop.target.execute(state)
        paste(shop.source.cluster, shop.source.name, remedy)

    shop.source.execute(
        "alter table visits replica identity default; alter table visits set unlogged"
    )
    put(shop, "visits", VISITS)
    with shop.start("--build") as running:
        running.wait_for("following the slot")
        shop.do("dbt", "run")
        mend("is not logged")
        mend("The replica identity of public.visits does not carry page")
        shop.source.execute("insert into visits values (1, 'x'); delete from visits")
        begin(shop)
        shop.source.execute(
            "insert into orders values (1, 'a'); insert into visits values (1, 'x')"
        )
        shop.source.execute("update visits set page = 'y'")
        wait_for(shop, running, "visits", "visits", "page")
        wait_for(shop, running, "orders", "orders", "channel")


def test_a_development_target_moves_nothing_of_production(shop: System) -> None:
    shop.do("dbt", "run")
    shop.must("run", "--once")
    begin(shop)
    shop.catch_up()
    number = "select cdc.models_version(%s)"
    before = shop.target.value(number, shop.slot)
    shop.do("dbt", "run", DBT_SCHEMA="dev")
    assert shop.states() == {"orders": "follows", "dev.orders": "follows"}
    put(shop, "orders", ORDERS.replace("channel", "amount"))
    shop.do("dbt", "run", DBT_SCHEMA="dev")
    said = "select reason from cdc.model_state where model_name = 'dev.orders'"
    assert "it is a copy of analytics.orders, which has another query" in shop.target.value(said)
    shop.source.execute("insert into orders values (1, 'a', 5), (2, 'b', 5)")
    shop.catch_up()
    assert shop.states()["orders"] == "follows"
    rows = "select * from {}.orders order by 1"
    assert shop.target.execute(rows.format("analytics")) == [("a", 1), ("b", 1)]
    assert shop.target.value(number, shop.slot) == before
    # The project moves to another schema by itself: the same target.
    put(shop, "orders", ORDERS.replace("materialized=", "schema='marts', materialized="))
    shop.do("dbt", "run")
    shop.apply()
    assert shop.states()["orders"] == "follows"
    moved = "select distinct relation_schema from cdc.registered_model"
    assert shop.target.value(moved) == "analytics_marts"
    assert shop.target.execute("select * from analytics_marts.orders order by 1") == [
        ("a", 1),
        ("b", 1),
    ]
