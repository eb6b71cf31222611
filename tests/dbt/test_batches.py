"""Slices; tests/dbt/test_queries.py has random cuts."""

from __future__ import annotations

from loader.applying.applier import apply_once
from tests.dbt.staged import MODEL, Warehouse
from tests.dbt.workload import LIVE, Application, change, row


def test_batches_end_where_a_transaction_ends(warehouse: Warehouse) -> None:
    application = Application(5)
    warehouse.append([change("I", LIVE, new=row(id="first", service_id=None))])
    warehouse.build(MODEL)
    warehouse.append(*(application.transaction() for _ in range(70)))
    ahead = (
        "select count(*) from cdc.change_log as log "
        "inner join cdc.model_watermark as mark on log.commit_lsn >= mark.applied_lsn"
    )
    largest = warehouse.value(
        "select max(size) from (select count(*) as size from cdc.change_log group by commit_lsn) "
        "as transactions"
    )
    batches, waiting = 0, warehouse.value(ahead)
    # Some transactions are larger than this, and go whole.
    warehouse.batch_of(4)
    while waiting:
        states = warehouse.apply_once()
        (model,) = (each for each in states if each.name == MODEL)
        batches += 1
        before, waiting = waiting, warehouse.value(ahead)
        assert 0 < before - waiting <= max(4, largest)
        assert model.is_behind == (waiting > 0)
    assert batches > 3
    assert warehouse.counts() == application.counts()
    written = "select xmin::text from cdc.model_watermark order by model_name"
    before = warehouse.execute(written)
    warehouse.apply()
    assert warehouse.execute(written) == before, "an empty batch writes nothing"


def test_the_loader_applies_all_batches_of_a_backlog_and_of_a_rebuild(warehouse: Warehouse) -> None:
    warehouse.build(MODEL)
    warehouse.batch_of(10)
    warehouse.append(*([change("I", LIVE, new=row(id=str(number)))] for number in range(25)))
    warehouse.append([{"action": "Z"}])
    for _ in ("a backlog", "a rebuild"):
        apply_once(warehouse.settings)
        assert list(warehouse.counts().values()) == [(25, 0)]
        reasons = "select reason from analytics.rejected_changes"
        assert warehouse.execute(reasons) == [("the action is not known",)]
        warehouse.ask_refresh(MODEL)
