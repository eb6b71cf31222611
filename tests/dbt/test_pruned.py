"""A rebuild that would need what `loader prune` took is refused; everything else goes on."""

from __future__ import annotations

from tests.dbt.project import messages
from tests.dbt.staged import FACT, Warehouse
from tests.dbt.workload import LIVE, change, row
from waltally import lsn

KEY_TYPES = ("--select", "ft_key_types")


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
    warehouse.execute("delete from cdc.model_watermark")
    assert "is pruned" in warehouse.waits(*FACT)
    assert list(warehouse.counts().values()) == [(2, 0)]

    warehouse.seed({}, at=pruned)
    warehouse.build(*FACT)
    assert list(warehouse.counts().values()) == [(1, 0)]


def test_a_new_fact_waits_for_what_is_pruned(warehouse: Warehouse) -> None:
    """It would lack what the log held before."""
    warehouse.append([change("I", LIVE, new=row(key_type="normal"))])
    prune(warehouse)
    warehouse.append([change("I", LIVE, new=row(key_type="normal"))])
    assert "is pruned" in warehouse.waits(*KEY_TYPES)
    assert warehouse.execute("select to_regclass('analytics.ft_key_types')") == [(None,)]
    warehouse.seed_fact(
        "ft_key_types", {"live": {(row()["service_id"], "normal"): [7]}}, at=warehouse.position
    )
    warehouse.build(*KEY_TYPES)
    assert warehouse.execute("select sum(count) from analytics.ft_key_types") == [(7,)]


def test_a_prune_during_a_rebuild_is_noticed(warehouse: Warehouse) -> None:
    warehouse.append([change("I", LIVE, new=row())])
    warehouse.build(*FACT)
    reading = "lock table cdc.baseline_group in access exclusive mode"
    with warehouse.interrupting(reading, lambda: prune(warehouse)):
        done = warehouse.dbt("run", *FACT, "--full-refresh")
    assert not done.success
    assert "was pruned during the build" in messages(done)
    assert list(warehouse.counts().values()) == [(1, 0)]
