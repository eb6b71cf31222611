"""A rebuild that would need what `loader prune` took is refused; everything else goes on."""

from __future__ import annotations

import re

from tests.dbt.warehouse import FACT, Warehouse, messages
from tests.dbt.workload import LIVE, change, row
from waltally import lsn

UNSEEDED = ("--select", "ft_key_types")


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
    assert "spark/seed.py" in messages(done).split("HINT")[1]
    warehouse.execute("delete from cdc.model_watermark")
    assert "is pruned" in messages(warehouse.dbt("run", *FACT))
    assert list(warehouse.counts().values()) == [(2, 0)]

    warehouse.seed({}, at=pruned)
    warehouse.build(*FACT)
    assert list(warehouse.counts().values()) == [(1, 0)]


def test_a_fact_that_no_seed_feeds_is_not_rebuilt_without_a_word(warehouse: Warehouse) -> None:
    warehouse.seed({})
    warehouse.append([change("I", LIVE, new=row(key_type="normal"))])
    warehouse.build(*UNSEEDED)
    prune(warehouse)
    warehouse.append([change("I", LIVE, new=row(key_type="normal"))])
    said = messages(warehouse.dbt("run", *UNSEEDED, "--full-refresh"))
    assert "is pruned" in said
    total = "select sum(count) from analytics.ft_key_types"
    warehouse.build(*UNSEEDED)
    assert warehouse.execute(total) == [(2,)]

    remedy = re.search(r"delete from .*;", said)
    assert remedy
    warehouse.execute(remedy[0])
    assert "and then: dbt build --full-refresh" in said
    warehouse.build(*UNSEEDED, "--full-refresh")
    assert warehouse.execute(total) == [(1,)]


def test_a_new_fact_starts_where_the_log_does(warehouse: Warehouse) -> None:
    warehouse.append([change("I", LIVE, new=row(key_type="normal"))])
    prune(warehouse)
    warehouse.append([change("I", LIVE, new=row(key_type="normal"))])
    warehouse.build(*UNSEEDED)
    assert warehouse.execute("select sum(count) from analytics.ft_key_types") == [(1,)]


def test_a_prune_during_a_rebuild_is_noticed(warehouse: Warehouse) -> None:
    warehouse.append([change("I", LIVE, new=row())])
    warehouse.build(*FACT)
    reading = "lock table cdc.historical_counts in access exclusive mode"
    with warehouse.interrupting(reading, lambda: prune(warehouse)):
        done = warehouse.dbt("run", *FACT, "--full-refresh")
    assert not done.success
    assert "was pruned during the build" in messages(done)
    assert list(warehouse.counts().values()) == [(1, 0)]
