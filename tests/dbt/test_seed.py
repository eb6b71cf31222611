"""Baseline and stream meet without a gap, and a new baseline takes effect by itself."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from loader.staging.records import ModelState
from tests.dbt.staged import MODEL, SLOT, STEP, Warehouse
from tests.dbt.workload import ARCHIVE, LIVE, SERVICES, TEMPLATES, Application, change, row
from waltally import lsn


def test_a_new_seed_replaces_what_was_wrong(warehouse: Warehouse) -> None:
    application = Application(11, truncates=False)
    while len(application.live) < 20 or len(application.history) < 5:
        application.step()
    before_the_slot, at_the_slot = application.counts(), warehouse.position
    warehouse.append(*(application.transaction() for _ in range(100)))
    warehouse.seed(before_the_slot, at=at_the_slot)
    warehouse.build(MODEL)
    assert warehouse.counts() == application.counts()

    warehouse.seed(application.counts())
    warehouse.append(*(application.transaction() for _ in range(100)))
    for refresh in (False, True):
        warehouse.build(MODEL, refresh=refresh)
        assert warehouse.counts() == application.counts()


def test_a_seed_ahead_of_the_log_waits_for_it_and_takes_no_change_from_others(
    warehouse: Warehouse,
) -> None:
    application = Application(12)
    warehouse.append(*(application.transaction() for _ in range(50)))
    staged_later = [application.transaction() for _ in range(50)]
    warehouse.seed(application.counts(), at=warehouse.position + 50 * STEP)
    warehouse.build(MODEL)
    both = (MODEL, "ft_key_types")
    for batch in (staged_later[:25], staged_later[25:]):
        warehouse.append(*batch)
        warehouse.build(*both)
        assert warehouse.counts() == application.counts()
    warehouse.append(application.transaction())
    warehouse.build(*both)
    assert warehouse.counts() == application.counts()
    counted = "select sum(count)::int from analytics.ft_key_types"
    assert warehouse.value(counted) == len(application.live)


def test_a_truncate_after_the_seed_drops_the_seed(warehouse: Warehouse) -> None:
    group = (SERVICES[0], TEMPLATES[0], "email", "created")
    warehouse.seed({group: (5, 7)})
    warehouse.append([change("T", LIVE), change("I", LIVE, new=row())])
    for refresh in (False, True):
        warehouse.build(MODEL, refresh=refresh)
        assert warehouse.counts() == {group: (1, 7)}


def test_a_rebuild_writes_down_an_archived_delete_once(warehouse: Warehouse) -> None:
    warehouse.append([change("I", ARCHIVE, new=row()), change("D", ARCHIVE, row())])
    for refresh in (False, True):
        warehouse.build(MODEL, refresh=refresh)
        assert warehouse.value("select sum(measures[1]) from cdc.archived_delete") == 1


def test_a_seed_of_one_model_touches_no_other(warehouse: Warehouse) -> None:
    """Nor what another could not count, and neither does a rebuild of one."""
    names = (MODEL, "ft_key_types", "ft_services")
    new = change("I", LIVE, new=row())
    warehouse.append([new, change("D", LIVE, old={"id": "1"})])
    warehouse.build(*names)
    listed = "select split_part(model_name, '.', 2) from analytics.rejected_changes order by 1"
    assert warehouse.execute(listed) == [(name,) for name in sorted(names)]
    warehouse.ask_refresh(MODEL)
    warehouse.apply()
    assert warehouse.execute(listed) == [(name,) for name in sorted(names)]
    warehouse.seed({})
    warehouse.build(*names)
    assert warehouse.execute(listed) == [(name,) for name in sorted(names[1:])]
    assert warehouse.value("select live_count from analytics.ft_services") == 1


def test_what_a_seed_could_not_count_is_listed(warehouse: Warehouse) -> None:
    warehouse.append([{"action": "Z"}])
    warehouse.seed({})
    warehouse.execute(
        "insert into cdc.baseline_rejection values (%s, 'ft_service_stats', %s, 'too long', "
        '7, \'{"notification_status": "x"}\')',
        SLOT,
        LIVE,
    )
    seeded_at = lsn.show(warehouse.position)
    warehouse.append([{"action": "Z"}])
    for refresh in (False, True):
        warehouse.build(MODEL, "ft_key_types", refresh=refresh)
        assert warehouse.execute(
            "select action, commit_lsn::text, ordinal, source_table, reason, payload::jsonb -> "
            "'row_count' from analytics.rejected_changes where action = 'baseline' or model_name = "
            "'analytics.ft_service_stats' order by ordinal"
        ) == [
            ("baseline", seeded_at, -1, LIVE, "too long", 7),
            ("Z", seeded_at, 1, None, "the action is not known", None),
        ]


def test_a_rebuild_under_which_log_or_seed_went_is_not_kept(warehouse: Warehouse) -> None:
    lock = warehouse.stop(MODEL)

    def rebuilt(meanwhile: Callable[[], None]) -> ModelState:
        warehouse.append([change("I", LIVE, new=row())])
        warehouse.build(MODEL)
        warehouse.ask_refresh(MODEL)
        with warehouse.waiting(lock, warehouse.apply_apart, "behind") as rebuild:
            meanwhile()
        assert list(warehouse.counts().values()) == [(1, 0)]
        return {each.name: each for each in rebuild.result()}[MODEL]

    model = rebuilt(warehouse.prune)
    assert (model.state, "after its baseline" in str(model.reason)) == ("failed", True)
    warehouse.seed({})
    assert rebuilt(lambda: warehouse.seed({})).is_behind
    warehouse.build(MODEL)
    assert warehouse.counts() == {}


def test_a_rebuild_that_reads_the_groups_of_another_seed_leaves_all_as_it_was(
    warehouse: Warehouse,
) -> None:
    group = (SERVICES[0], TEMPLATES[0], "email", "created")
    warehouse.seed({group: (5, 0)})
    warehouse.build(MODEL)
    warehouse.execute(f"alter routine {warehouse.routine(MODEL)} set lock_timeout = '1h'")
    warehouse.ask_refresh(MODEL)
    lock = "lock table cdc.baseline_group in access exclusive mode"
    with ThreadPoolExecutor() as pool, warehouse.holding(lock) as seed:
        rebuild = pool.submit(warehouse.apply_apart, "behind")
        warehouse.wait_for_waiting(1, rebuild)
        seed.ask("update cdc.baseline set baseline_id = gen_random_uuid()")
        seed.ask("update cdc.baseline_group set measures = '{7, 7, 0}'")
        seed.commit()
        assert {each.name: each for each in rebuild.result()}[MODEL].is_behind
    assert warehouse.counts() == {group: (5, 0)}
    warehouse.build(MODEL)
    assert warehouse.counts() == {group: (7, 0)}
