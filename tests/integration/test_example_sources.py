"""The examples' recounts see a row that is wrong, missing or not of the source."""

from __future__ import annotations

import pytest

from demo import example as examples
from testkit.comparison import differences
from testkit.databases import Database
from testkit.servers import Cluster

FOREIGN = {
    "ft_orders": "day = '1999-01-01'",
    "customers": '"Customer no" = -1',
    "ft_parcels": "month = '1999-01-01'",
    "ft_regions": "month = '1999-01-01'",
    "ft_project_hours": "project_id = -1",
    "projects": "id = -1",
    "ft_month_hours": "month = '1999-01-01'",
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
        columns = ", ".join(f'"{name}"' for name in (*recount.keys, *recount.values))
        table = f"analytics.{recount.fact}"
        query = recount.query.replace("%(slot)s", "'a_slot'")
        database.execute(f"create table {table} as select * from ({query}) as made ({columns})")
        assert differences(recount, {"a_slot": dsn}, dsn) == []
        found = []
        for change in (
            f"update {table} set \"{recount.values[0]}\" = null where ctid = '(0,1)'",
            f"delete from {table} where ctid = '(0,2)'",
            f"update {table} set {FOREIGN[recount.fact]} where ctid = '(0,3)'",
        ):
            database.execute(change)
            found.append(len(differences(recount, {"a_slot": dsn}, dsn)))
        assert found == [1, 2, 4]
