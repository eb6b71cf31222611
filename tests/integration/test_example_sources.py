"""The examples' sources and traffic: every kind of change happens, and recounts see it."""

from __future__ import annotations

import pytest

from demo import example as examples
from demo.cluster import Cluster
from demo.comparison import differences
from demo.source import transaction
from demo.worker import OUTCOMES
from tests.support import Database
from tests.support.databases import empty_database

NAMES = examples.names()


def test_there_are_three_examples() -> None:
    assert NAMES == ["notify", "shop", "time_entries"]


@pytest.mark.parametrize("name", NAMES)
def test_every_kind_of_change_happens(name: str, cluster: Cluster, database: Database) -> None:
    example, dsn = examples.load(name), cluster.dsn(database.name)
    example.create(dsn)
    example.fill(dsn, 2000, 1)
    traffic = example.traffic(dsn, seed=1, rate=None, truncates=True)
    kinds = {change.__name__ for change in traffic.changes}
    missing = kinds | set(OUTCOMES)
    for _ in range(20):
        traffic.run(transactions=200)
        missing -= {kind for kind, times in traffic.counts.items() if times}
        if not missing:
            break
    assert not missing


@pytest.mark.parametrize("name", NAMES)
def test_the_same_arguments_fill_the_same_rows(name: str, cluster: Cluster) -> None:
    example = examples.load(name)
    found = []
    for number in (1, 1, 2):
        with empty_database(cluster) as made:
            dsn = cluster.dsn(made.name)
            example.create(dsn)
            example.fill(dsn, 500, number)
            found.append([recounted(dsn, each.query) for each in example.recounts])
    assert found[0] == found[1] != found[2]
    assert all(found[0])


FOREIGN = {
    "ft_orders": "day = '1999-01-01'",
    "ft_project_hours": "project_id = -1",
    "projects": "id = -1",
}
"""A key that no row of the example has, by model."""


@pytest.mark.parametrize("name", ["shop", "time_entries"])
def test_a_wrong_a_missing_and_a_foreign_row_are_differences(
    name: str, cluster: Cluster, database: Database
) -> None:
    example, dsn = examples.load(name), cluster.dsn(database.name)
    example.create(dsn)
    example.fill(dsn, 500, 1)
    database.execute("create schema analytics")
    for recount in example.recounts:
        columns = ", ".join((*recount.keys, *recount.values))
        table = f"analytics.{recount.fact}"
        query = recount.query.replace("%(slot)s", "'a_slot'")
        database.execute(f"create table {table} as select * from ({query}) as made ({columns})")
        assert differences(recount, {"a_slot": dsn}, dsn) == []
        found = []
        for change in (
            f"update {table} set {recount.values[0]} = null where ctid = '(0,1)'",
            f"delete from {table} where ctid = '(0,2)'",
            f"update {table} set {FOREIGN[recount.fact]} where ctid = '(0,3)'",
        ):
            database.execute(change)
            found.append(len(differences(recount, {"a_slot": dsn}, dsn)))
        assert found == [1, 2, 4]


def recounted(dsn: str, query: str) -> list[tuple[object, ...]]:
    with transaction(dsn) as cursor:
        cursor.execute(query, {"slot": "a_slot", "purges": []})
        return sorted(cursor.fetchall(), key=repr)
