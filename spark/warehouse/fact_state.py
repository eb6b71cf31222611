"""What the view fact_state says of a fact: whether it follows the change log, and what helps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from common.connections import TargetSession

from waltally import lsn
from waltally.errors import BuildFailed, LoaderError, NotSetUp
from waltally.facts import Fact
from waltally.tables import Table


@dataclass(frozen=True)
class FactState:
    """`state` is follows, waits or failed; `reason` and `remedy` are empty where all is well."""

    relation: Table
    state: str
    reason: str
    remedy: str
    applied_lsn: int | None

    @property
    def error(self) -> LoaderError | None:
        """Return what keeps the fact from following."""
        if self.state == "follows":
            return None
        error = BuildFailed if self.state == "failed" else NotSetUp
        return error(f"{self.relation} {self.state}: {self.reason}", self.remedy)


COLUMNS = "state, coalesce(reason, ''), coalesce(remedy, ''), applied_lsn::text"


def of(fact: Fact, columns: Sequence[Any]) -> FactState:
    """Return what COLUMNS say of a fact."""
    state, reason, remedy, applied = columns
    return FactState(fact.relation, state, reason, remedy, applied and lsn.parse(applied))


def read(target: TargetSession, fact: Fact) -> FactState:
    """Return the state of a registered fact."""
    (row,) = target.ask(
        f"select {COLUMNS} from {target.table('fact_state')}"
        " where slot_name = %s and model_name = %s",
        (target.slot, str(fact.relation)),
    )
    return of(fact, row)


def is_rebuild_due(target: TargetSession, facts: Sequence[Fact]) -> bool:
    """Return whether the next apply starts one of the facts from its baseline."""
    rows = target.ask(
        "select bool_or(step = 'rebuild' and error is null)"
        f" from {target.table('plan_models')}(%s) where model_name = any (%s)",
        (target.slot, [str(fact.relation) for fact in facts]),
    )
    return rows == [(True,)]


def applied_lsn(target: TargetSession, fact: Fact) -> int:
    """Return the position of a fact that follows. Raises NotSetUp, or BuildFailed."""
    found = read(target, fact)
    if found.error:
        raise found.error
    assert found.applied_lsn is not None
    return found.applied_lsn


def baseline_id(target: TargetSession, fact: Fact) -> str | None:
    """Return which baseline a fact that follows stands on; None where on none."""
    rows = target.ask(
        f"select baseline_id::text from {target.table('baseline')}"
        " where slot_name = %s and fact_name = %s",
        (target.slot, fact.name),
    )
    return str(rows[0][0]) if rows else None
