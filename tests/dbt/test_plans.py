"""The server keeps its plans: a batch plans nothing that reads the log or writes a fact."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.dbt.project import Project
from tests.dbt.staged import Warehouse, set_environment, warehouse_cluster
from tests.dbt.workload import ARCHIVE, LIVE, change, row

PLANNED = "select query, plans from pg_stat_statements where not toplevel"
COUNTING = {
    "shared_preload_libraries": "pg_stat_statements",
    "pg_stat_statements.track": "all",
    "pg_stat_statements.track_planning": "on",
}


@pytest.fixture
def counting(project: Project, monkeypatch: pytest.MonkeyPatch) -> Iterator[Warehouse]:
    """A server that counts how often it plans each statement, and a fact that follows."""
    with warehouse_cluster(COUNTING) as cluster:
        set_environment(cluster, monkeypatch)
        warehouse = Warehouse(cluster, project)
        warehouse.execute("create extension pg_stat_statements")
        warehouse.build("--select", "ft_service_stats", "ft_key_types", "rejected_changes")
        yield warehouse
        warehouse.close()


def planned(warehouse: Warehouse, batches: int) -> set[str]:
    """Return the statements that were planned while so many batches were applied."""
    before = dict(warehouse.execute(PLANNED))
    for number in range(batches):
        new = row(id=str(number))
        warehouse.append([change("I", LIVE, new=new), change("I", ARCHIVE, new=new)])
        assert all(model.state != "failed" for model in warehouse.apply_once("front"))
    after = dict(warehouse.execute(PLANNED))
    return {query for query, plans in after.items() if plans > before.get(query, 0)}


def is_call(query: str) -> bool:
    """Whether a statement only calls a function, by a name that plpgsql had to put in."""
    return bool(re.fullmatch(r'select (\* from )?("\w+"\."?\w+"?\(|[$0-9, )])+', query))


def test_a_batch_plans_only_the_calls_of_its_functions(counting: Warehouse) -> None:
    assert not all(map(is_call, planned(counting, 1)))
    planned(counting, 10)
    again = planned(counting, 5)
    assert len(again) <= 3, sorted(again)
    assert all(map(is_call, again)), again


def test_a_new_partition_and_a_prune_let_the_log_be_planned_once(counting: Warehouse) -> None:
    """A plan of a partitioned table names its partitions, so it goes when these change."""
    planned(counting, 10)
    for statement in (
        "alter table cdc.change_log detach partition cdc.change_log_all; "
        "alter table cdc.change_log attach partition cdc.change_log_all "
        "for values from ('0/0') to ('FF/0'); "
        "create table cdc.change_log_more partition of cdc.change_log "
        "for values from ('FF/0') to ('FFFF/0')",
        "drop table cdc.change_log_more",
    ):
        counting.execute(statement)
        again = {query for query in planned(counting, 1) if not is_call(query)}
        assert all("change_log" in query for query in again), again
        assert all(map(is_call, planned(counting, 3)))
