"""`loader status` says what a fact waits for, and what ends that."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from loader.monitoring import waiting
from loader.staging.records import (
    Baseline,
    FactState,
    Registration,
    SlotPosition,
    TargetState,
    Watermark,
)
from tests.support.facts import notify

NOW = datetime(2026, 1, 1, tzinfo=UTC)
EVERY = {"public.notifications": {"*": "0/10"}, "public.notification_history": {"*": "0/10"}}
BASELINE = Baseline("b", 0x20, NOW, True, {})
BUILT = Watermark(0x30, NOW, False, None, {}, {}, "b", True)
STATE = FactState("ft_service_stats", "analytics.ft_service_stats", notify(), 5, BUILT, BASELINE)
OTHER = replace(STATE, name="ft_other", relation="analytics.ft_other")


def why(
    state: FactState,
    followed: dict[str, Any] = EVERY,
    others: tuple[FactState, ...] = (),
    pruned_from: int | None = None,
) -> waiting.Waiting | None:
    registered = Registration(1, (notify(),), (), followed)
    slot = SlotPosition("s", "7", "notify", 0x10, 0x40, pruned_from_lsn=pruned_from)
    found = TargetState(slot, NOW, NOW, None, None, None, registered, [state, *others])
    return waiting.why(found, state)


def test_a_fact_that_is_as_it_is_declared_waits_for_nothing() -> None:
    assert why(STATE) is None
    pruned = replace(STATE, baseline=replace(BASELINE, snapshot_lsn=0xF))
    assert why(pruned, {}) is None, "what the baseline needs of the log is built"
    assert why(STATE, {}) is None, "before the first run the log begins where the slot does"


def test_a_relation_of_another_dbt_target_is_not_judged() -> None:
    assert why(replace(STATE, fact=None, baseline=None)) is None


SEED = "`spark-submit spark/seed.py --fact ft_service_stats`, then `dbt build`"
UNBUILT = replace(STATE, watermark=None, rows=None)
WAITS: dict[str, tuple[Any, str, str]] = {
    "declared otherwise since the seed": (
        {"state": replace(STATE, baseline=replace(BASELINE, is_of_declaration=False))},
        "its baseline was counted by another declaration",
        SEED,
    ),
    "new in a slot that is seeded": (
        {"state": replace(UNBUILT, baseline=None), "others": (OTHER,)},
        "waits for a seed: it has no baseline",
        SEED,
    ),
    "new in a slot that was never seeded, with a table that is": (
        {
            "state": replace(UNBUILT, baseline=None),
            "followed": {**EVERY, "public.notifications": {"*": "0/11"}},
        },
        "waits for a seed: it has no baseline",
        SEED,
    ),
    "new in a slot that was never seeded, with a log that is pruned": (
        {"state": replace(UNBUILT, baseline=None), "pruned_from": 0x8},
        "waits for a seed: it has no baseline",
        SEED,
    ),
    "not followed yet": (
        {
            "state": replace(UNBUILT, baseline=None),
            "followed": {"public.notifications": {"*": "0/10"}},
        },
        "waits until the loader follows public.notification_history for it",
        "see that `loader run` runs; then `spark-submit",
    ),
    "seeded and not followed yet": (
        {"state": UNBUILT, "followed": {"public.notifications": {"*": "0/10"}}},
        "waits until the loader follows public.notification_history for it",
        "see that `loader run` runs; then `dbt build`",
    ),
    "a column is kept too late": (
        {
            "state": STATE,
            "followed": {
                **EVERY,
                "public.notifications": {
                    **dict.fromkeys(("service_id", "template_id", "notification_type"), "0/10"),
                    "notification_status": "0/21",
                },
            },
        },
        "from before the loader followed all it needs of public.notifications (at 0/21)",
        SEED,
    ),
    "its baseline is older than the log": (
        {"state": replace(UNBUILT, baseline=replace(BASELINE, snapshot_lsn=0xF)), "followed": {}},
        "the change log starts after its baseline (at 0/10)",
        SEED,
    ),
    "built by another declaration": (
        {"state": replace(STATE, watermark=replace(BUILT, is_of_declaration=False))},
        "its rows were counted by another declaration",
        "`dbt build`",
    ),
    "built without the baseline": (
        {"state": replace(STATE, watermark=replace(BUILT, baseline_id=None))},
        "was not built since its baseline was taken",
        "`dbt build`",
    ),
    "never seeded": (
        {"state": replace(STATE, watermark=replace(BUILT, baseline_id=None), baseline=None)},
        "has no baseline, so rows from before the slot are missing",
        "`spark-submit spark/seed.py`, then `dbt build`",
    ),
}


@pytest.mark.parametrize("case", WAITS)
def test_a_fact_that_waits_is_a_finding_with_its_remedy(case: str) -> None:
    given, reason, remedy = WAITS[case]
    found = why(**given)
    assert found is not None
    assert reason in found.reason
    assert remedy in found.remedy
    assert found.is_finding


@pytest.mark.parametrize(
    "state",
    [
        UNBUILT,
        replace(UNBUILT, baseline=None),
        replace(STATE, watermark=replace(BUILT, baseline_id="a")),
    ],
)
def test_what_the_next_build_does_is_no_finding(state: FactState) -> None:
    found = why(state)
    assert found is not None
    assert not found.is_finding
