"""The server keeps its plans: a batch plans nothing that reads the log or writes a model."""

from __future__ import annotations

import json
import re

import pytest

from testkit.servers import Server
from tests.dbt.project import Project
from tests.dbt.staged import MODEL, Warehouse, set_environment
from tests.dbt.workload import ARCHIVE, LIVE, change, row

PLANNED = "select query, plans from pg_stat_statements where not toplevel"
COUNTING = {
    "fsync": "off",
    "shared_preload_libraries": "pg_stat_statements",
    "pg_stat_statements.track": "all",
    "pg_stat_statements.track_planning": "on",
}


def planned(warehouse: Warehouse, batches: int) -> set[str]:
    """Return the statements that were planned while so many batches were applied."""
    before = dict(warehouse.execute(PLANNED))
    for number in range(batches):
        new = row(id=str(number))
        changes = (change("I", table, new=new) for table in (LIVE, ARCHIVE))
        # As the plugin prints them: another form is parsed, by a function that is planned anew.
        warehouse.append([json.dumps(each, separators=(",", ":")) for each in changes])
        assert all(model.state != "failed" for model in warehouse.apply_once("front"))
    after = dict(warehouse.execute(PLANNED))
    return {query for query, plans in after.items() if plans > before.get(query, 0)}


def is_call(query: str) -> bool:
    """Whether a statement only calls functions by names that plpgsql puts in, or locks the log."""
    name = r"[\w.\"]+"
    routine = rf"select made\.[\w., ]+ from {name}\(.*\) as made cross join lateral .*"
    reader = rf"select ((\* from )?{name}\(|[$0-9, )])+"
    return bool(re.fullmatch(f'{routine}|{reader}|select from only "cdc".change_log', query))


@pytest.mark.slow
def test_a_batch_plans_only_the_calls_of_its_functions(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Server(COUNTING) as cluster:
        set_environment(cluster, monkeypatch)
        warehouse = Warehouse(cluster, project)
        warehouse.execute("create extension pg_stat_statements")
        warehouse.build(MODEL, "ft_key_types")
        assert not all(map(is_call, planned(warehouse, 1)))
        planned(warehouse, 10)
        again = planned(warehouse, 5)
        assert len(again) <= 3, sorted(again)
        assert all(map(is_call, again)), again
        # A plan of a partitioned table names its partitions, so it goes once when these change.
        for statement in (
            "alter table cdc.change_log detach partition cdc.change_log_all; "
            "alter table cdc.change_log attach partition cdc.change_log_all "
            "for values from ('0/0') to ('FF/0'); "
            "create table cdc.change_log_more partition of cdc.change_log "
            "for values from ('FF/0') to ('FFFF/0')",
            "drop table cdc.change_log_more",
        ):
            warehouse.execute(statement)
            again = {query for query in planned(warehouse, 1) if not is_call(query)}
            assert all("change_log" in query for query in again), again
            assert all(map(is_call, planned(warehouse, 3)))
        warehouse.close()
