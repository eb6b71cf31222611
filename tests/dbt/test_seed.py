"""Baseline and stream meet without a gap, and a new baseline takes effect by itself."""

from __future__ import annotations

from collections.abc import Callable

from loader.staging.records import ModelState
from testkit.databases import ARCHIVE as MOVE
from tests.dbt.warehouse import ARCHIVE, LIVE, MODEL, MODELS, OTHER, TABLE, THIRD, Warehouse


def test_a_seed_ahead_of_the_log_waits_for_it_and_takes_no_change_from_others(
    built: Warehouse,
) -> None:
    """And it replaces what was wrong."""
    built.target.execute(f"update {TABLE} set live_count = live_count + 1, count = count + 1")
    built.change()
    built.seed()
    built.apply()
    assert built.states() == {**dict.fromkeys(MODELS, "follows"), MODEL: "waits"}
    built.must_be_exact()
    built.write()
    built.ask_refresh(MODEL)
    built.must_be_exact()


def test_a_truncate_after_the_seed_drops_the_seed(built: Warehouse) -> None:
    for emptied in (LIVE, ARCHIVE):
        built.source.execute(MOVE)
        built.stage()
        built.seed()
        built.source.execute(f"truncate {emptied}")
        built.source.insert(1)
        built.must_be_exact()
        built.ask_refresh(MODEL)
        built.must_be_exact()


def test_a_rebuild_writes_down_an_ignored_delete_once(built: Warehouse) -> None:
    built.source.execute(MOVE)
    purged = len(built.source.execute(f"delete from {ARCHIVE} returning id"))
    built.stage()
    for _ in ("an apply", "a rebuild"):
        built.apply()
        assert built.target.value("select sum(measures[1]) from cdc.ignored_delete") == purged
        built.ask_refresh(MODEL)


def test_what_could_not_be_counted_is_listed_until_its_own_model_is_seeded(
    built: Warehouse,
) -> None:
    def listed() -> list[tuple[object, ...]]:
        built.apply()
        return built.target.execute(
            "select split_part(model_name, '.', 2), action, source_table, reason,"
            " payload::jsonb ->> 'row_count' from analytics.rejected_changes order by 1, ordinal"
        )

    built.damage()
    unknown = ("Z", None, "the action is not known", None)
    assert listed() == [(name, *unknown) for name in sorted(MODELS)]
    built.seed()
    built.target.execute(
        "insert into cdc.baseline_rejection values (%s, %s, %s, 'too long', 7,"
        ' \'{"notification_status": "x"}\')',
        *(built.slot, MODEL, LIVE),
    )
    built.damage()
    for _ in ("a seed", "a rebuild"):
        too_long = (MODEL, "baseline", LIVE, "too long", "7")
        others = [[(name, *unknown)] * 2 for name in (OTHER, THIRD)]
        assert listed() == [*others[0], too_long, (MODEL, *unknown), *others[1]]
        built.ask_refresh(MODEL)


def test_a_rebuild_under_which_log_or_seed_went_is_not_kept(built: Warehouse) -> None:
    lock = built.stop(MODEL)

    def rebuilt(meanwhile: Callable[[], object]) -> ModelState:
        built.source.insert(1)
        built.must_be_exact()
        built.ask_refresh(MODEL)
        with built.waiting(lock, built.applied, "catching up") as (_, rebuild):
            meanwhile()
        assert built.model() == built.recount()
        return rebuild.result()[MODEL]

    model = rebuilt(built.prune)
    assert (model.state, "after its baseline" in str(model.reason)) == ("failed", True)
    built.seed()
    another = "update cdc.baseline set baseline_id = gen_random_uuid() where model_name = %s"
    assert rebuilt(lambda: built.target.execute(another, MODEL)).is_behind
    built.must_be_exact()


def test_a_rebuild_that_reads_the_groups_of_another_seed_leaves_all_as_it_was(
    built: Warehouse,
) -> None:
    built.stage()
    built.seed()
    built.must_be_exact()
    built.be_patient(MODEL)
    built.ask_refresh(MODEL)
    lock = "lock table cdc.baseline_group in access exclusive mode"
    with built.waiting(lock, built.applied, "catching up") as (seed, rebuild):
        seed.ask("update cdc.baseline set baseline_id = gen_random_uuid()")
        seed.ask("update cdc.baseline_group set measures = '{7, 7, 0}' where part = %s", (LIVE,))
        seed.commit()
        assert rebuild.result()[MODEL].is_behind
    before = built.model()
    assert before == built.recount()
    built.apply()
    seven = {group: (7 * (live > 0), archived) for group, (live, archived) in before.items()}
    assert built.model() == seven
