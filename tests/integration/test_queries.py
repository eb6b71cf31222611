"""`loader setup` with models that are queries."""

from __future__ import annotations

from pathlib import Path

from testkit.databases import empty_database
from testkit.queries import QuerySystem
from testkit.servers import Cluster


def test_what_is_wrong_with_queries_and_with_their_tables_is_said_at_once(
    cluster: Cluster, tmp_path: Path
) -> None:
    with empty_database(cluster) as source:
        source.execute(
            "create schema lab; create table lab.orders (id int primary key, channel text, n int);"
            "create unlogged table lab.stock (id int, n int)"
        )
        system = QuerySystem(source, tmp_path)
        system.declare(
            {
                "channels": ("select channel, count(*) as n from {orders} group by 1", {}),
                "pieces": ("select sum(n) as n from {stock}", {}),
                "largest": ("select max(n) as n from {orders}", {}),
                "newest": ("select id from {orders} limit 1", {}),
            }
        )
        for arguments in (("setup", "--check"), ("setup",)):
            _, said = system.refused(*arguments)
            for words in (
                "The replica identity of lab.orders does not carry",
                "lab.stock is not logged",
                "largest: max() cannot be taken back row by row",
                "newest: LIMIT",
            ):
                assert words in said, said
        # No query but a refused one is not said to be none.
        system.declare({"largest": ("select max(n) as n from {orders}", {})})
        _, said = system.refused("setup")
        assert said.count("Error: ") <= 1 and "max() cannot" in said
