"""Whatever the batches, the counts are those of the rows."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from loader.applying.applier import apply_once
from tests.dbt.staged import DATABASE, FACT, SLOT, Warehouse
from tests.dbt.workload import ARCHIVE, LIVE, Source, change, row
from waltally import lsn
from waltally.settings import Settings


@pytest.mark.parametrize("seed", [1, 2])
def test_any_cut_into_batches_gives_the_counts_of_the_rows(warehouse: Warehouse, seed: int) -> None:
    source = Source(seed)
    for size in (1, 150, 2, 40, 0, 200):
        warehouse.append(*(source.transaction() for _ in range(size)))
        warehouse.build(*FACT)
        assert warehouse.counts() == source.counts()
    assert source.truncated
    in_batches = warehouse.execute("select * from analytics.ft_service_stats order by id")

    warehouse.build("--full-refresh", *FACT)
    rebuilt = warehouse.execute("select * from analytics.ft_service_stats order by id")
    assert rebuilt == in_batches


def test_a_first_build_equals_many_small_ones(warehouse: Warehouse) -> None:
    source = Source(4)
    warehouse.append(*(source.transaction() for _ in range(300)))
    warehouse.build(*FACT)
    assert source.truncated
    assert warehouse.counts() == source.counts()


def test_the_last_truncate_of_a_transaction_counts(warehouse: Warehouse) -> None:
    warehouse.append([change("I", LIVE, new=row(id="1")), change("I", ARCHIVE, new=row(id="9"))])
    warehouse.build(*FACT)
    warehouse.append(
        [
            change("I", LIVE, new=row(id="2")),
            change("T", LIVE),
            change("I", LIVE, new=row(id="3")),
            change("T", LIVE),
            change("I", LIVE, new=row(id="4")),
        ]
    )
    warehouse.build(*FACT)
    assert list(warehouse.counts().values()) == [(1, 1)]


def test_an_unseeded_delete_is_remembered_below_the_floor(warehouse: Warehouse) -> None:
    warehouse.append([change("D", LIVE, old=row(id="1"))])
    warehouse.build(*FACT)
    stats = "select count, live_count from analytics.ft_service_stats"
    assert warehouse.execute(stats) == [(0, -1)]
    warehouse.append([change("I", LIVE, new=row(id=str(number))) for number in (2, 3)])
    warehouse.build(*FACT)
    assert warehouse.execute(stats) == [(1, 1)]


def test_a_rebuild_repairs_a_count_that_someone_changed(warehouse: Warehouse) -> None:
    warehouse.append([change("I", LIVE, new=row())])
    warehouse.build(*FACT)
    warehouse.execute("update analytics.ft_service_stats set count = 7")
    warehouse.build("--full-refresh", *FACT)
    assert warehouse.execute("select count from analytics.ft_service_stats") == [(1,)]


def test_an_empty_batch_writes_nothing(warehouse: Warehouse) -> None:
    warehouse.append([change("I", LIVE, new=row())])
    warehouse.build()
    state = (
        "select (select array_agg(xmin::text) from analytics.ft_service_stats), "
        "(select array_agg(xmin::text order by model_name) from cdc.model_watermark)"
    )
    before = warehouse.execute(state)
    warehouse.build()
    assert warehouse.execute(state) == before


def test_sums_are_not_rounded(warehouse: Warehouse) -> None:
    for number in range(3):
        warehouse.append([change("I", LIVE, new=row(id=str(number), billable_units=0.3))])
        warehouse.build("--select", "ft_billable_units", "rejected_changes")
    units = "select units::text from analytics.ft_billable_units"
    assert warehouse.execute(units) == [("0.9",)]


def test_slices_end_where_a_transaction_ends(warehouse: Warehouse) -> None:
    source = Source(5)
    warehouse.append([change("I", LIVE, new=row(id="first", service_id=None))])
    warehouse.build(*FACT)
    warehouse.append(*(source.transaction() for _ in range(70)))
    ahead = (
        "select count(*) from cdc.change_log as log "
        "inner join cdc.model_watermark as mark on log.commit_lsn >= mark.applied_lsn"
    )
    ((largest,),) = warehouse.execute(
        "select max(size) from (select count(*) as size from cdc.change_log group by commit_lsn) "
        "as transactions"
    )
    slices, waiting = 0, warehouse.execute(ahead)[0][0]
    warehouse.slice(50)
    while waiting:
        states = warehouse.apply_once()
        (model,) = (each for each in states if each.name == "analytics.ft_service_stats")
        slices += 1
        before, waiting = waiting, warehouse.execute(ahead)[0][0]
        assert 0 < before - waiting <= max(50, largest)
        assert model.is_behind == (waiting > 0)
    assert slices > 3
    assert warehouse.counts() == source.counts()
    warehouse.refresh("ft_service_stats")
    assert warehouse.counts() == source.counts()


def test_more_than_one_slice_is_applied_at_once(warehouse: Warehouse) -> None:
    """A backlog and a rebuild are larger than what one call takes."""
    settings = Settings.of(warehouse.cluster.dsn(DATABASE), "", SLOT, "cdc")
    warehouse.append([change("I", LIVE, new=row(id="first"))])
    warehouse.build(*FACT)
    payload = json.dumps(change("I", LIVE, new=row()), separators=(",", ":"))
    end = warehouse.position + 201_000
    warehouse.execute(
        "insert into cdc.change_log "
        "(slot_name, commit_lsn, ordinal, xid, committed_at, action, payload) "
        "select %s, %s::pg_lsn + n, 1, 1, now(), 'I', %s from generate_series(0, 200999) as n",
        SLOT,
        lsn.show(warehouse.position),
        payload,
    )
    warehouse.position = end
    warehouse.append([{"action": "Z"}])
    apply_once(settings)
    assert list(warehouse.counts().values()) == [(201_001, 0)]
    reasons = "select reason from analytics.rejected_changes"
    assert warehouse.execute(reasons) == [("the action is not known",)]
    warehouse.refresh("ft_service_stats")
    assert list(warehouse.counts().values()) == [(201_001, 0)]
    assert warehouse.execute(reasons) == [("the action is not known",)]


def test_a_transaction_larger_than_a_slice_goes_whole(warehouse: Warehouse) -> None:
    warehouse.append([change("I", LIVE, new=row(id="1"))])
    warehouse.build(*FACT)
    warehouse.append([change("I", LIVE, new=row(id=str(number))) for number in range(30)])
    warehouse.append([change("I", LIVE, new=row(id="last"))])
    warehouse.slice(7)
    warehouse.apply_once()
    assert list(warehouse.counts().values()) == [(31, 0)]
    warehouse.apply_once()
    assert list(warehouse.counts().values()) == [(32, 0)]


def test_a_second_fact_is_one_short_model(warehouse: Warehouse) -> None:
    source = Source(6)
    warehouse.append(*(source.transaction() for _ in range(60)))
    warehouse.build()
    warehouse.append(*(source.transaction() for _ in range(60)))
    for words in ((), ("--full-refresh",)):
        warehouse.build(*words)
        rows = [each for each in source.live.values() if each["service_id"]]
        key_types = {(each["service_id"], each["key_type"]): 0 for each in rows}
        units = {each["service_id"]: 0 for each in rows}
        for each in rows:
            key_types[each["service_id"], each["key_type"]] += 1
            units[each["service_id"]] += each["billable_units"]
        assert {
            (service, key_type): count
            for service, key_type, count in warehouse.execute(
                "select service_id::text, key_type, count from analytics.ft_key_types "
                "where count <> 0"
            )
        } == key_types
        assert dict(
            warehouse.execute(
                "select service_id::text, units from analytics.ft_billable_units where units <> 0"
            )
        ) == {service: total for service, total in units.items() if total}
        # A fact without the other dimensions counts their nulls too.
        assert dict(
            warehouse.execute(
                "select service_id::text, live_count from analytics.ft_services "
                "where live_count <> 0"
            )
        ) == Counter(each["service_id"] for each in rows)
