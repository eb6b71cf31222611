"""The baseline and the stream meet without a gap, and a new baseline takes effect by itself."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from tests.dbt.staged import FACT, SLOT, Warehouse
from tests.dbt.workload import LIVE, Source, change, row
from waltally import lsn


def test_a_new_seed_replaces_what_was_wrong(warehouse: Warehouse) -> None:
    source = Source(11, truncates=False)
    while len(source.live) < 20 or len(source.history) < 5:
        source.step()
    before_the_slot = source.counts()
    at_the_slot = warehouse.position
    warehouse.append(*(source.transaction() for _ in range(100)))
    warehouse.build(*FACT)
    assert warehouse.counts() != source.counts(), "history is still missing"

    warehouse.seed(before_the_slot, at=at_the_slot)
    warehouse.build(*FACT)
    assert warehouse.counts() == source.counts()

    warehouse.seed(source.counts())
    warehouse.append(*(source.transaction() for _ in range(100)))
    warehouse.build(*FACT)
    assert warehouse.counts() == source.counts()
    warehouse.append(*(source.transaction() for _ in range(20)))
    warehouse.build(*FACT)
    warehouse.build("--full-refresh", *FACT)
    assert warehouse.counts() == source.counts()


def test_a_seed_ahead_of_the_log_waits_for_it(warehouse: Warehouse) -> None:
    source = Source(12)
    warehouse.append(*(source.transaction() for _ in range(50)))
    staged_later = [source.transaction() for _ in range(50)]
    warehouse.seed(source.counts(), at=warehouse.position + 50 * 0x30)
    warehouse.build(*FACT)
    assert warehouse.counts() == source.counts()
    for half in (staged_later[:25], staged_later[25:]):
        warehouse.append(*half)
        warehouse.build(*FACT)
        assert warehouse.counts() == source.counts()
    warehouse.append(source.transaction())
    warehouse.build(*FACT)
    assert warehouse.counts() == source.counts()


def test_a_truncate_after_the_seed_drops_the_seed(warehouse: Warehouse) -> None:
    group = (
        "00000000-0000-0000-0000-000000000001",
        "00000000-0000-0000-0000-00000000000a",
        "email",
        "created",
    )
    warehouse.seed({group: (5, 7)})
    warehouse.append([change("T", LIVE), change("I", LIVE, new=row())])
    warehouse.build(*FACT)
    assert warehouse.counts() == {group: (1, 7)}
    warehouse.build("--full-refresh", *FACT)
    assert warehouse.counts() == {group: (1, 7)}


def test_a_new_seed_clears_the_rejected_changes(warehouse: Warehouse) -> None:
    warehouse.append([change("D", LIVE, old={"id": "1"})])
    warehouse.build()
    listed = "select count(*) from analytics.rejected_changes where fact = %s"
    fact, other = "analytics.ft_service_stats", "analytics.ft_key_types"
    assert warehouse.execute(listed, fact) == [(1,)]
    warehouse.seed({})
    warehouse.build()
    assert warehouse.execute(listed, fact) == [(0,)]
    assert warehouse.execute(listed, other) == [(1,)], "the seed of one fact touches no other"


def test_what_a_seed_could_not_count_is_listed(warehouse: Warehouse) -> None:
    warehouse.append([{"action": "Z"}])
    warehouse.seed({})
    warehouse.execute(
        "insert into cdc.baseline_rejection values (%s, 'ft_service_stats', 'live', 'too long', "
        '7, \'{"notification_status": "x"}\')',
        SLOT,
    )
    seeded_at = lsn.show(warehouse.position)
    warehouse.append([{"action": "Z"}])
    listed = (
        "select action, commit_lsn::text, ordinal, source_table, reason, "
        "payload::jsonb -> 'row_count' "
        "from analytics.rejected_changes where fact = 'analytics.ft_service_stats' order by ordinal"
    )
    wanted = [
        ("baseline", seeded_at, -1, LIVE, "too long", 7),
        ("Z", seeded_at, 1, None, "the action is not known", None),
    ]
    rejected = "select rejected_lsn < applied_lsn from cdc.model_watermark where model_name = %s"
    for words in ((), ("--full-refresh",)):
        warehouse.build(*words)
        assert warehouse.execute(listed) == wanted
        assert warehouse.execute(rejected, "analytics.ft_service_stats") == [(True,)]
    # Another fact has none of them.
    assert warehouse.execute(
        "select count(*) from analytics.rejected_changes where action = 'baseline' "
        "and fact <> 'analytics.ft_service_stats'"
    ) == [(0,)]


def test_a_seed_of_one_fact_touches_no_other(warehouse: Warehouse) -> None:
    warehouse.append([change("I", LIVE, new=row(billable_units=3))])
    warehouse.build()
    warehouse.seed({})
    warehouse.build()
    assert warehouse.execute("select units from analytics.ft_billable_units") == [(3,)]


def test_a_rebuild_whose_seed_is_replaced_begins_again(warehouse: Warehouse) -> None:
    warehouse.append([change("I", LIVE, new=row())])
    warehouse.build(*FACT)
    before = warehouse.counts()
    warehouse.execute("update cdc.installed_model set is_refresh_asked = true")
    with ThreadPoolExecutor() as pool, warehouse.stopping("ft_service_stats"):
        rebuild = pool.submit(warehouse.apply_apart, "behind")
        warehouse.wait_for_waiting(1)
        warehouse.seed({})
    assert {each.name: each for each in rebuild.result()}["analytics.ft_service_stats"].is_behind
    assert warehouse.counts() == before
    warehouse.build(*FACT)
    assert warehouse.counts() == {}
