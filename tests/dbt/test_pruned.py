"""A rebuild that would need what `loader prune` took is refused; everything else goes on."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from tests.dbt.project import messages
from tests.dbt.staged import FACT, Warehouse
from tests.dbt.workload import LIVE, change, row
from waltally import lsn

KEY_TYPES = ("--select", "ft_key_types", "rejected_changes")


def prune(warehouse: Warehouse) -> None:
    """Let the log begin where it ends now, as a prune leaves it."""
    warehouse.execute(
        "update cdc.slot_position set pruned_from_lsn = start_lsn, start_lsn = position_lsn"
    )
    warehouse.execute("delete from cdc.change_log")


def test_without_a_seed_only_a_rebuild_is_refused(warehouse: Warehouse) -> None:
    warehouse.append([change("I", LIVE, new=row())])
    warehouse.build(*FACT)
    pruned = warehouse.position
    prune(warehouse)
    warehouse.append([change("I", LIVE, new=row())])
    warehouse.build(*FACT)
    assert list(warehouse.counts().values()) == [(2, 0)]

    done = warehouse.dbt("run", *FACT, "--full-refresh")
    assert f"the change log from 0/1000 to {lsn.show(pruned)} is pruned" in messages(done)
    assert "spark/seed.py --fact ft_service_stats" in messages(done).split("HINT")[1]
    warehouse.append([change("I", LIVE, new=row())])
    warehouse.build(*FACT)
    assert list(warehouse.counts().values()) == [(3, 0)], "a refused rebuild holds up nothing"
    warehouse.execute("delete from cdc.model_watermark")
    assert "is pruned" in warehouse.waits(*FACT)
    assert list(warehouse.counts().values()) == [(3, 0)]

    warehouse.seed({}, at=pruned)
    warehouse.build(*FACT)
    assert list(warehouse.counts().values()) == [(2, 0)]


def test_a_new_fact_waits_for_what_is_pruned(warehouse: Warehouse) -> None:
    """It would lack what the log held before."""
    warehouse.append([change("I", LIVE, new=row(key_type="normal"))])
    prune(warehouse)
    warehouse.append([change("I", LIVE, new=row(key_type="normal"))])
    assert "is pruned" in warehouse.waits(*KEY_TYPES)
    assert warehouse.execute("select * from analytics.ft_key_types") == []
    warehouse.seed_fact(
        "ft_key_types", {"live": {(row()["service_id"], "normal"): [7]}}, at=warehouse.position
    )
    warehouse.build(*KEY_TYPES)
    assert warehouse.execute("select sum(count) from analytics.ft_key_types") == [(7,)]


def test_a_prune_during_a_rebuild_is_noticed(warehouse: Warehouse) -> None:
    warehouse.append([change("I", LIVE, new=row())])
    warehouse.build(*FACT)
    warehouse.execute("update cdc.installed_model set is_refresh_asked = true")
    with ThreadPoolExecutor() as pool, warehouse.stopping("ft_service_stats"):
        rebuild = pool.submit(warehouse.apply_apart, "behind")
        warehouse.wait_for_waiting(1)
        prune(warehouse)
    (model,) = (each for each in rebuild.result() if each.name == "analytics.ft_service_stats")
    assert model.state == "failed"
    assert "is pruned" in str(model.reason)
    assert list(warehouse.counts().values()) == [(1, 0)]
