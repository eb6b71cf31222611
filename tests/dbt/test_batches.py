"""Slices; tests/dbt/test_queries.py has random cuts."""

from __future__ import annotations

from tests.dbt.warehouse import MODEL, TABLE, Warehouse


def test_batches_end_where_a_transaction_ends(built: Warehouse) -> None:
    built.write(50)
    ahead = (
        "select count(*) from cdc.change_log as log inner join cdc.model_watermark as mark"
        f" on log.commit_lsn >= mark.applied_lsn where mark.relation = '{TABLE}'"
    )
    largest = built.target.value(
        "select max(size) from (select count(*) as size from cdc.change_log group by commit_lsn)"
        " as transactions"
    )
    batches, waiting = 0, built.target.value(ahead)
    # Some transactions are larger than this, and go whole.
    built.batch_of(4)
    while waiting:
        model = built.applied()[MODEL]
        batches += 1
        before, waiting = waiting, built.target.value(ahead)
        assert 0 < before - waiting <= max(4, largest)
        assert model.is_behind or not waiting
    assert batches > 3
    built.must_be_exact()
    written = "select xmin::text from cdc.model_watermark order by relation"
    before = built.target.execute(written)
    built.apply()
    assert built.target.execute(written) == before, "an empty batch writes nothing"


def test_the_loader_applies_all_batches_of_a_backlog_and_of_a_rebuild(built: Warehouse) -> None:
    built.batch_of(10)
    built.must_be_exact()
    built.ask_refresh(MODEL)
    built.must_be_exact()
