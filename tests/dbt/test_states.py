"""`cdc.model_state` says what is true of a model, and what helps whatever else runs."""

from __future__ import annotations

from contextlib import closing

import pytest

from loader.monitoring.findings import of_models
from loader.staging import target_state
from testkit.commands import wait_until
from testkit.servers import connect_target
from tests.dbt.staged import DATABASE, MODEL, SLOT, START, Warehouse
from tests.dbt.workload import LIVE, change, row
from waltally import locks

SEED = f"`spark-submit spark/seed.py --model {MODEL}`"


def findings(warehouse: Warehouse) -> dict[str, str]:
    """What `loader status` finds of the installed models, with the remedies."""
    with closing(connect_target(warehouse.cluster.dsn(DATABASE), SLOT)) as target:
        stored = target_state.read_stored(target)
    assert stored is not None
    found = of_models([model for model in stored.models if model.remedy != "`dbt build`"])
    return {str(each): each.remedy for each in found}


@pytest.fixture
def seeded(warehouse: Warehouse) -> Warehouse:
    warehouse.seed({}, at=START)
    warehouse.append([change("I", LIVE, new=row())])
    warehouse.build(MODEL)
    return warehouse


def test_a_seed_that_counts_is_waited_for(seeded: Warehouse) -> None:
    key = locks.key("seeding", SLOT, f"analytics.{MODEL}")
    seeded.execute("update cdc.baseline set declaration = '{}', baseline_id = gen_random_uuid()")
    assert seeded.state() == ("waits", "its baseline was counted by another declaration", SEED)
    assert findings(seeded) == {
        f"The model {MODEL} waits: its baseline was counted by another declaration": SEED
    }
    with seeded.holding(f"select pg_advisory_xact_lock({key})"):
        assert seeded.state() == (
            "waits",
            "a seed is counting its rows",
            "nothing is needed: it goes on when the seed has ended",
        )
        assert findings(seeded) == {}
        change = "update cdc.registered_model set declaration = '{}', registered_at = now()"
        seeded.execute(f"{change} where declared_name = '{MODEL}'")
        seeded.execute("update cdc.baseline set declaration = '[]'")
        assert seeded.state()[2] == "let the seed end, then `dbt build`"
    # The other session may need a moment to end.
    wait_until(lambda: seeded.state()[2] == f"{SEED}, then `dbt build`")


def test_models_that_need_the_same_are_one_finding(warehouse: Warehouse) -> None:
    warehouse.seed({}, at=START)
    warehouse.append([change("I", LIVE, new=row())])
    warehouse.build(MODEL, "ft_services", "ft_key_types")
    warehouse.execute("update cdc.model_watermark set declaration = null, baseline_id = null")
    warehouse.execute("delete from cdc.baseline where declared_name <> 'ft_service_stats'")
    both = "`spark-submit spark/seed.py --model ft_key_types --model ft_services`"
    assert findings(warehouse) == {
        "The models ft_key_types, ft_services wait: it waits for its seed: without the rows from "
        "before its numbers would be wrong": both
    }


def test_a_lock_has_one_number_in_python_in_the_database_and_in_dbt(warehouse: Warehouse) -> None:
    for names in (["a"], ["a", "b"], ['Ä "b"\'', "c d"]):
        stored = warehouse.value("select cdc.lock_key('seeding', variadic %s::text[])", names)
        assert stored == locks.key("seeding", *names)
        printed = warehouse.project.call("lock_key", kind="dbt relation", name=names[0])
        assert warehouse.value(f"select {printed}") == locks.key("dbt relation", names[0])
