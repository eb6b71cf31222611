"""A dbt project whose models are queries: its life with setup, dbt, seed, loader and cdc.apply."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from testkit.databases import empty_database
from testkit.fixtures import WAREHOUSE
from testkit.servers import Cluster
from tests.dbt.shop import Shop

QUERIES = (
    *("sales", "both", "service_stats", "current_orders", "order_total", "odd_sizes"),
    *("nightly", "stock"),
)
"""The models whose queries take each row."""


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
        made.built = made.dbt("build", "--exclude", "test_type:unit")
        made.waited = made.states()
        made.seed()
        made.catch_up()
        yield made


def test_a_new_model_waits_for_its_seed_and_dbt_says_so(shop: Shop) -> None:
    print(shop.built, shop.waited, shop.states())
    assert 0
