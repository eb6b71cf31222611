from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from loader.staging.layout import Block
from loader.staging.log_consumers import Archive, Consumers, Model, Reader
from loader.staging.records import SlotPosition
from loader.staging.retention import Partition, State, plan
from loader.staging.units import parse_age
from waltally.errors import SettingError

DAY = 86_400


BASELINE = 0x880000000


def slot(
    name: str, start_lsn: int, position_lsn: int, baseline_lsn: int | None = BASELINE
) -> SlotPosition:
    return SlotPosition(name, "7", "notify", start_lsn, position_lsn, baseline_lsn=baseline_lsn)


FT = Model("analytics.ft", "ft", "s", True, None, None, False, 0x900000000, BASELINE)
NEW = replace(FT, name="analytics.new", fact="new", is_rebuilt=True, applied_lsn=None)
FACTS = Consumers("cdc", (slot("s", 0x100000010, 0x900000000),), (FT,), (), ())


def at(half: int) -> int:
    return half << 32


def log(*ages: float) -> list[Partition]:
    """Partitions from 1 on, of these ages in days."""
    return [partition(number, "attached", age * DAY) for number, age in enumerate(ages, 1)]


def partition(number: int, state: State, age: float) -> Partition:
    """A partition of 4 GiB."""
    return Partition(Block(at(number), at(number + 1)), state, 0, age)


def droppable(facts: Consumers, partitions: list[Partition], days: float = 7) -> list[int]:
    return [
        each.from_lsn >> 32
        for each, blockers in plan(partitions, facts, days * DAY)
        if not blockers
    ]


def reasons(facts: Consumers, partitions: list[Partition], number: int, days: float = 7) -> str:
    """What is said of a partition, remedies included."""
    for each, blockers in plan(partitions, facts, days * DAY):
        if each.from_lsn == at(number):
            return " | ".join(f"{blocker.reason} -> {blocker.remedy}" for blocker in blockers)
    raise AssertionError("no such partition")


AGES = (40, 30, 20, 10, 9, 8, 1, 0)


def test_what_is_applied_covered_and_old_may_go() -> None:
    assert droppable(FACTS, log(*AGES)) == [1, 2, 3, 4, 5, 6]


def test_the_newest_partition_never_goes() -> None:
    assert droppable(FACTS, log(40, 30)) == [1]
    assert reasons(FACTS, log(40, 30), 2).startswith("it is the newest partition")


def test_nothing_goes_before_what_is_older_than_it() -> None:
    partitions = log(40, 1, 30, 30)
    assert droppable(FACTS, partitions) == [1]
    assert reasons(FACTS, partitions, 3).startswith("an older partition is kept")


def test_an_empty_partition_is_old() -> None:
    partitions = [replace(each, age=None) for each in log(1, 1)]
    assert droppable(FACTS, partitions) == [1]


def with_slot(start: int, position: int) -> Consumers:
    return replace(FACTS, slots=(*FACTS.slots, slot("other", start, position)))


def stands_on(baseline: int | None, **more: Any) -> Consumers:
    """The fact has this baseline; without one, no fact of the slot has."""
    begun = slot("s", 0x100000010, 0x900000000, baseline)
    return replace(FACTS, slots=(begun,), models=(replace(FT, baseline_lsn=baseline),), **more)


def with_models(*models: Model) -> Consumers:
    return replace(FACTS, models=models)


HELD = {
    "by the loader": (
        with_slot(at(3), at(4) - 2**20),
        [1, 2],
        "slot other still writes to it: it ends after 1.0 MB more of WAL -> ",
        "",
    ),
    "by a slot that has not moved for long": (
        replace(with_slot(at(3), at(4) - 1), still_seconds={"other": 2.0 * DAY}),
        [1, 2],
        "slot other is at 3/FFFFFFFF, where it has been for 2.0 d, and may still write to it",
        "`loader run --slot other`; or, only where its source is gone for good: "
        "`loader teardown --slot other`",
    ),
    "by a fact that was never built": (
        with_models(
            FT,
            replace(NEW, baseline_lsn=at(4), reason="it was not built yet", remedy="`dbt build`"),
        ),
        [1, 2, 3],
        "analytics.new has applied nothing of slot s: it was not built yet",
        "-> `dbt build`",
    ),
    "by a fact of a slot that was never seeded": (
        replace(stands_on(None), models=(replace(FT, applied_lsn=None, baseline_lsn=None),)),
        [],
        "analytics.ft has applied nothing of slot s",
        "`loader run --build` or `dbt build`",
    ),
    "by a fact that waits for a seed": (
        with_models(
            replace(
                FT,
                applied_lsn=at(5),
                reason="its baseline was counted by another declaration",
                remedy="`spark-submit spark/seed.py --fact ft`",
            )
        ),
        [1, 2, 3, 4],
        "has applied slot s only up to 5/0: its baseline was counted by another declaration",
        "-> `spark-submit spark/seed.py --fact ft`",
    ),
    "by a model that is behind": (
        with_models(replace(FT, applied_lsn=at(5))),
        [1, 2, 3, 4],
        "analytics.ft has applied slot s only up to 5/0",
        "`loader run --build` or `dbt build`",
    ),
    "from its baseline on by a model that is rebuilt": (
        with_models(replace(FT, applied_lsn=at(2), baseline_lsn=at(4), is_rebuilt=True)),
        [1, 2, 3],
        "analytics.ft has applied slot s only up to 2/0",
        "`loader run --build` or `dbt build`",
    ),
    "by a model that is gone": (
        with_models(FT, replace(FT, name="dev.it's", applied_lsn=at(3) - 1, exists=False)),
        [1],
        "dev.it's, which does not exist, has applied slot s only up to 2/FFFFFFFF",
        "; or, if the model is gone for good: "
        "delete from \"cdc\".\"installed_model\" where model_name = 'dev.it''s' "
        "and slot_name = 's'; "
        "delete from \"cdc\".\"model_watermark\" where model_name = 'dev.it''s' "
        "and slot_name = 's';",
    ),
    "by a reader of one's own": (
        replace(FACTS, readers=(Reader("it's", "s", at(4) - 1), Reader("other's", "t", 0))),
        [1, 2],
        "the reader it's has read slot s only up to 3/FFFFFFFF",
        '-> let it read on; or, if it is gone for good: delete from "cdc"."reader_position" '
        "where slot_name = 's' and reader = 'it''s';",
    ),
    "for a rebuild from an old baseline": (
        stands_on(at(3)),
        [1, 2],
        "there is a baseline at 3/0 and no archive of it",
        "spark/seed.py",
    ),
    "for a rebuild from no baseline": (
        stands_on(None),
        [],
        "there is no baseline and no archive of it",
        "spark/archive.py",
    ),
    "for what the archive has not yet": (
        stands_on(
            None, archives=(Archive("s", at(1) + 0x10, at(4) - 3 * 2**20, "s3a://backups/slot=s"),)
        ),
        [1, 2],
        "there is no baseline and the archive in s3a://backups lacks 3.1 MB of WAL from 3/FFD00000"
        " on",
        "`spark-submit spark/archive.py --to s3a://backups`; or count again, "
        "`spark-submit spark/seed.py --fact ft`",
    ),
    "for what the archive began too late for": (
        stands_on(None, archives=(Archive("s", at(1) + 0x11, at(9), "/late/slot=s"),)),
        [],
        "no archive of it; /late has only what is after 1/11",
        "spark/archive.py",
    ),
    "for a slot that is not in the archive": (
        stands_on(None, archives=(Archive("other", 0, at(9)),)),
        [],
        "no archive of it",
        "spark/archive.py",
    ),
}


@pytest.mark.parametrize("case", HELD)
def test_a_partition_is_kept(case: str) -> None:
    facts, may_go, reason, remedy = HELD[case]
    partitions = log(*AGES)
    assert droppable(facts, partitions) == may_go
    said = reasons(facts, partitions, len(may_go) + 1)
    assert reason in said
    assert remedy in said


def test_two_archives_do_not_cover_a_partition_between_them() -> None:
    halves = (Archive("s", 0, at(1) + 0x80), Archive("s", at(1) + 0x80, at(9)))
    assert droppable(stands_on(None, archives=halves), log(*AGES)) == []


def test_an_archive_stands_for_a_seed() -> None:
    facts = stands_on(at(2), archives=(Archive("s", at(1) + 0x10, at(6)),))
    assert droppable(facts, log(*AGES)) == [1, 2, 3, 4, 5]


def test_a_fact_that_waits_for_its_seed_holds_nothing() -> None:
    """Its seed will be newer than all that is in the log by now."""
    facts = with_models(FT, replace(NEW, baseline_lsn=None))
    assert droppable(facts, log(*AGES)) == [1, 2, 3, 4, 5, 6]


def test_a_slot_without_facts_holds_what_is_young_alone() -> None:
    assert droppable(with_slot(at(4), at(9)), log(*AGES)) == [1, 2, 3, 4, 5, 6]


def test_a_slot_whose_log_starts_later_holds_nothing() -> None:
    assert droppable(with_slot(at(7), at(7)), log(*AGES)) == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("state", ["pending", "detached"])
def test_what_a_prune_left_behind_goes_whatever_its_age(state: State) -> None:
    moved = replace(FACTS, slots=(slot("s", at(2), at(9)),))
    left = [partition(1, state, 0.0), *log(0, 0)[1:]]
    assert droppable(moved, left) == [1]
    assert droppable(FACTS, left) == []
    assert "the log of slot s starts before its end, at 1/10" in reasons(FACTS, left, 1)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("0s", 0), ("45s", 45), ("2m", 120), ("3h", 10_800), ("6d", 6 * DAY), ("8w", 56 * DAY)],
)
def test_an_age_is_a_number_and_a_unit(text: str, seconds: int) -> None:
    assert parse_age(text) == seconds


@pytest.mark.parametrize("text", ["", "7", "d", "-1d", "7 d", "1.5d", "7y"])
def test_an_age_of_another_form_is_refused(text: str) -> None:
    with pytest.raises(SettingError, match="--keep"):
        parse_age(text)
