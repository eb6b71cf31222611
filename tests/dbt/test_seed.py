"""Baseline and stream meet without a gap, and a new baseline takes effect by itself; two slots."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from loader.staging.records import ModelState
from tests.dbt.staged import FACT, SLOT, START, STEP, Warehouse
from tests.dbt.workload import ARCHIVE, LIVE, SERVICES, TEMPLATES, Application, change, row
from waltally import lsn


def test_a_new_seed_replaces_what_was_wrong(warehouse: Warehouse) -> None:
    application = Application(11, truncates=False)
    while len(application.live) < 20 or len(application.history) < 5:
        application.step()
    before_the_slot, at_the_slot = application.counts(), warehouse.position
    warehouse.append(*(application.transaction() for _ in range(100)))
    warehouse.seed(before_the_slot, at=at_the_slot)
    warehouse.build(FACT)
    assert warehouse.counts() == application.counts()

    warehouse.seed(application.counts())
    warehouse.append(*(application.transaction() for _ in range(100)))
    for refresh in (False, True):
        warehouse.build(FACT, refresh=refresh)
        assert warehouse.counts() == application.counts()


def test_a_seed_ahead_of_the_log_waits_for_it(warehouse: Warehouse) -> None:
    application = Application(12)
    warehouse.append(*(application.transaction() for _ in range(50)))
    staged_later = [application.transaction() for _ in range(50)]
    warehouse.seed(application.counts(), at=warehouse.position + 50 * STEP)
    for batch in ([], staged_later[:25], staged_later[25:]):
        warehouse.append(*batch)
        warehouse.build(FACT)
        assert warehouse.counts() == application.counts()
    warehouse.append(application.transaction())
    warehouse.build(FACT)
    assert warehouse.counts() == application.counts()


def test_a_truncate_after_the_seed_drops_the_seed(warehouse: Warehouse) -> None:
    group = (SERVICES[0], TEMPLATES[0], "email", "created")
    warehouse.seed({group: (5, 7)})
    warehouse.append([change("T", LIVE), change("I", LIVE, new=row())])
    for refresh in (False, True):
        warehouse.build(FACT, refresh=refresh)
        assert warehouse.counts() == {group: (1, 7)}


def test_a_rebuild_writes_down_an_archived_delete_once(warehouse: Warehouse) -> None:
    warehouse.append([change("I", ARCHIVE, new=row()), change("D", ARCHIVE, row())])
    for refresh in (False, True):
        warehouse.build(FACT, refresh=refresh)
        assert warehouse.value("select sum(measures[1]) from cdc.archived_delete") == 1


def test_a_seed_of_one_fact_touches_no_other(warehouse: Warehouse) -> None:
    """Nor what another could not count, and neither does a rebuild of one."""
    names = (FACT, "ft_key_types", "ft_services")
    new = change("I", LIVE, new=row())
    warehouse.append([new, change("D", LIVE, old={"id": "1"})])
    warehouse.build(*names)
    listed = "select split_part(fact, '.', 2) from analytics.rejected_changes order by 1"
    assert warehouse.execute(listed) == [(name,) for name in sorted(names)]
    warehouse.refresh(FACT)
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
        warehouse.build(FACT, "ft_key_types", refresh=refresh)
        assert warehouse.execute(
            "select action, commit_lsn::text, ordinal, source_table, reason, payload::jsonb -> "
            "'row_count' from analytics.rejected_changes "
            "where fact = 'analytics.ft_service_stats' order by ordinal"
        ) == [
            ("baseline", seeded_at, -1, LIVE, "too long", 7),
            ("Z", seeded_at, 1, None, "the action is not known", None),
        ]
        assert warehouse.value(
            "select rejected_lsn < applied_lsn from cdc.model_watermark "
            "where model_name = 'analytics.ft_service_stats'"
        )
    # Another fact has none of them.
    of_baselines = "select count(*) from analytics.rejected_changes where action = 'baseline'"
    assert warehouse.value(of_baselines) == 1


def test_a_rebuild_under_which_log_or_seed_went_is_not_kept(warehouse: Warehouse) -> None:
    lock = warehouse.stop(FACT)

    def rebuilt(meanwhile: Callable[[], None]) -> ModelState:
        warehouse.append([change("I", LIVE, new=row())])
        warehouse.build(FACT)
        warehouse.ask_refresh(FACT)
        with warehouse.waiting(lock, warehouse.apply_apart, "behind") as rebuild:
            meanwhile()
        assert list(warehouse.counts().values()) == [(1, 0)]
        return {each.name: each for each in rebuild.result()}[FACT]

    model = rebuilt(warehouse.prune)
    assert (model.state, "after its baseline" in str(model.reason)) == ("failed", True)
    warehouse.seed({})
    assert rebuilt(lambda: warehouse.seed({})).is_behind
    warehouse.build(FACT)
    assert warehouse.counts() == {}


def test_a_rebuild_that_reads_the_groups_of_another_seed_leaves_all_as_it_was(
    warehouse: Warehouse,
) -> None:
    group = (SERVICES[0], TEMPLATES[0], "email", "created")
    warehouse.seed({group: (5, 0)})
    warehouse.build(FACT)
    warehouse.execute(f"alter routine {warehouse.routine(FACT)} set lock_timeout = '1h'")
    warehouse.ask_refresh(FACT)
    lock = "lock table cdc.baseline_group in access exclusive mode"
    with ThreadPoolExecutor() as pool, warehouse.holding(lock) as seed:
        rebuild = pool.submit(warehouse.apply_apart, "behind")
        warehouse.wait_for_waiting(1, rebuild)
        seed.ask("update cdc.baseline set baseline_id = gen_random_uuid()")
        seed.ask("update cdc.baseline_group set measures = '{7, 7, 0}'")
        seed.commit()
        assert {each.name: each for each in rebuild.result()}[FACT].is_behind
    assert warehouse.counts() == {group: (5, 0)}
    warehouse.build(FACT)
    assert warehouse.counts() == {group: (7, 0)}


OTHER = "another_slot"
OF_TWO_SLOTS = ("ft_hours", "current_projects")
ENTRIES, PROJECTS = "time.entries", "time.projects"


def entry(hours: float) -> dict[str, Any]:
    return change("I", ENTRIES, new={"project": 1, "at": "2026-07-01 00:00:00", "hours": hours})


def project(name: str) -> dict[str, Any]:
    return {"id": 1, "Name": name, "notes": None}


def test_of_two_slots_that_feed_one_fact_each_has_rows_of_its_own(warehouse: Warehouse) -> None:
    """No step of one touches rows of the other."""
    warehouse.add_slot(OTHER)
    both = [fact for fact in warehouse.project.facts() if fact.name in OF_TWO_SLOTS]
    warehouse.register(*both, slot=OTHER)

    def build(slot: str, *transactions: list[Any], refresh: bool = False) -> None:
        warehouse.slot = slot
        warehouse.append(*transactions)
        warehouse.build(*OF_TWO_SLOTS, refresh=refresh)

    def rows(slot: str) -> list[Any]:
        """The stored rows of a slot."""
        query = "select xmin::text, * from analytics.{} where office = %s order by 3, 4"
        return [warehouse.execute(query.format(table), slot) for table in OF_TWO_SLOTS]

    def held(slot: str) -> tuple[list[Any], list[Any]]:
        """The hours of a slot that are not zero, and the names of its projects."""
        hours, projects = rows(slot)
        return [row[5] for row in hours if row[5]], [row[3] for row in projects]

    for slot, hours, name in ((SLOT, 2.5, "a"), (OTHER, 4.0, "b")):
        build(slot, [entry(hours), change("I", PROJECTS, new=project(name)), {"action": "Z"}])
    assert held(SLOT) == ([2.5], ["a"])
    untouched = rows(SLOT)
    listed = "select count(*) from analytics.rejected_changes where slot_name = %s"
    assert warehouse.value(listed, SLOT) == 2

    build(OTHER, [change("T", ENTRIES), change("T", PROJECTS)])
    assert held(OTHER) == ([], [])
    build(OTHER, [entry(1), change("I", PROJECTS, new=project("c"))])
    build(OTHER, refresh=True)
    assert held(OTHER) == ([1], ["c"])
    warehouse.seed_fact("ft_hours", {"entries": {(OTHER, "1", "2026-07-01"): [9, 0, 0]}}, START)
    warehouse.seed_fact("current_projects", {"rows": {(OTHER, "8", "x", None): [1]}}, START)
    build(OTHER)
    assert held(OTHER) == ([1], ["c"]), "the TRUNCATE came after the baseline"
    warehouse.execute("delete from cdc.model_watermark where slot_name = %s", OTHER)
    build(OTHER)

    assert rows(SLOT) == untouched
    assert warehouse.value(listed, SLOT) == 2
    build(SLOT, [change("U", PROJECTS, project("a"), project("d"))])
    assert held(SLOT) == ([2.5], ["d"])
    assert held(OTHER) == ([1], ["c"])
