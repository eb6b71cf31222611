"""Why a fact waits, or holds less than it is declared to. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from loader.staging.records import FactState, TargetState
from waltally import lsn
from waltally.facts import Fact
from waltally.followed import since

_THEN_BUILD = "then `dbt build`"
_PARTIAL = "so rows from before the slot are missing, and its counts may be below zero"


@dataclass(frozen=True)
class Waiting:
    """What a fact waits for, and what ends that."""

    reason: str
    """What is said of it: `waits for its first build`."""
    remedy: str
    is_finding: bool = True
    """False where nothing is wrong: the next build does it."""


def why(found: TargetState, state: FactState) -> Waiting | None:
    """Return why a fact is not what its declaration and its baseline say, None where it is."""
    fact = state.fact
    if fact is None:
        return None
    unfollowed = _unfollowed(found, fact)
    if unfollowed is not None:
        is_counted = state.baseline is not None and state.baseline.is_of_declaration
        seed = "" if is_counted else f"then {_seed(fact)}, "
        return Waiting(
            f"waits until the loader follows {unfollowed} for it",
            f"see that `loader run` runs; {seed}{_THEN_BUILD}",
        )
    if state.baseline is None:
        return _without_baseline(found, state, fact)
    if not state.baseline.is_of_declaration:
        return Waiting(
            "waits for a seed: its baseline was counted by another declaration",
            f"{_seed(fact)}, {_THEN_BUILD}",
        )
    late = _late(found, fact, state.baseline.snapshot_lsn)
    if late is not None:
        return Waiting(
            f"waits for a seed: its baseline is from before the loader followed {late}",
            f"{_seed(fact)}, {_THEN_BUILD}",
        )
    is_rebuilt = state.watermark is None or state.watermark.baseline_id != state.baseline.id
    if is_rebuilt and state.baseline.snapshot_lsn < found.record.start_lsn:
        return Waiting(
            "waits for a seed: the change log starts after its baseline"
            f" (at {lsn.show(found.record.start_lsn)})",
            f"{_seed(fact)}, {_THEN_BUILD}",
        )
    if state.watermark is None:
        return Waiting("waits for its first build", "`dbt build`", is_finding=False)
    if not state.watermark.is_of_declaration:
        return Waiting(
            "waits for a build: its rows were counted by another declaration", "`dbt build`"
        )
    if state.watermark.baseline_id is None:
        return Waiting(f"was not built since its baseline was taken, {_PARTIAL}", "`dbt build`")
    if state.watermark.baseline_id != state.baseline.id:
        return Waiting("waits for a build on its newest baseline", "`dbt build`", is_finding=False)
    return None


def _without_baseline(found: TargetState, state: FactState, fact: Fact) -> Waiting | None:
    mark = state.watermark
    if mark is not None and mark.is_of_declaration and state.rows is not None:
        return Waiting(
            f"has no baseline, {_PARTIAL}", f"`spark-submit spark/seed.py`, {_THEN_BUILD}"
        )
    if not _is_whole(found, fact):
        return Waiting("waits for a seed: it has no baseline", f"{_seed(fact)}, {_THEN_BUILD}")
    if mark is None:
        return Waiting("waits for its first build", "`dbt build`", is_finding=False)
    return Waiting("waits for a build: its rows were counted by another declaration", "`dbt build`")


def _is_whole(found: TargetState, fact: Fact) -> bool:
    """Whether a fact can be built from the log alone: nothing of the slot was ever seeded."""
    return (
        all(each.baseline is None for each in found.facts)
        and found.record.pruned_from_lsn is None
        and _late(found, fact, found.record.start_lsn) is None
    )


def _unfollowed(found: TargetState, fact: Fact) -> str | None:
    """Return a table of which the log does not hold everything that the fact needs."""
    # Before the first run nothing is: it begins where the log does.
    if not found.registration.followed:
        return None
    for part in fact.tables:
        if since(found.registration.followed, part.table, fact.needed_columns(part)) is None:
            return str(part.table)
    return None


def _late(found: TargetState, fact: Fact, position: int) -> str | None:
    """Return a table that the log holds only from after this position on."""
    for part in fact.tables:
        at = since(found.registration.followed, part.table, fact.needed_columns(part))
        if at is not None and at > position:
            return f"all it needs of {part.table} (at {lsn.show(at)})"
    return None


def _seed(fact: Fact) -> str:
    return f"`spark-submit spark/seed.py --fact {fact.name}`"
