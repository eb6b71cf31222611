"""The next batch of each fact that Spark applies, as the database decides it.

Executors compute it, and the database adds it in one transaction, only where the fact is still as
the plan says. So a batch that is computed twice, by two jobs or after a crash, counts once.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass

from common import arrow, changes, session
from common.arrow import Written
from common.command import DEFAULT_TIMEOUT
from common.connections import TargetSession, resolved
from deltas.rules import FactChanges
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from loader.staging.records import ModelState
from waltally import failpoints, lsn
from waltally.errors import SettingError
from waltally.facts import Fact
from waltally.settings import SlotSettings
from waltally.tables import Table

MAX_CHANGES = 2_000_000


@dataclass(frozen=True)
class ApplySettings(SlotSettings):
    """What the job needs to know.

    `facts` are the names of facts, empty for all. `interval` is how many seconds it rests where
    there is nothing to do, None to end once everything that was staged at the start is applied. A
    batch has about `max_changes` changes, and whole transactions. `timeout` is in seconds.
    """

    facts: tuple[str, ...] = ()
    interval: float | None = None
    max_changes: int = MAX_CHANGES
    timeout: float = DEFAULT_TIMEOUT


@dataclass(frozen=True)
class Plan:
    """The next step of a fact: the changes from `from_lsn` on, for the rows on this baseline.

    With `is_ready` there is a step and it need not wait for its next try; with `is_locked` it
    failed because somebody had locked it.
    """

    fact: Fact
    state: ModelState
    from_lsn: int
    position: int
    baseline_id: str | None
    is_rebuild: bool
    is_ready: bool
    is_locked: bool

    def is_due(self, end: int) -> bool:
        """Return whether it can be brought nearer to a position that is staged."""
        return self.is_ready and (self.is_rebuild or self.from_lsn < end)


def read(target: TargetSession, settings: ApplySettings) -> list[Plan]:
    """Return the plans of the facts that Spark applies, in the order of their names.

    Raises SettingError where there is none, or where --fact names another one.
    """
    facts = {fact.name: fact for fact in target.registered_facts()}
    rows = target.ask(
        "select fact_name, coalesce(from_lsn, '0/0')::text, position_lsn::text, baseline_id::text,"
        " step is not distinct from 'rebuild',"
        " step is not null and coalesce(retry_at <= clock_timestamp(), true),"
        " is_locked,"
        " fact_name, model_name, state, reason, remedy, applied_lsn::text, engine"
        f" from {target.table('explain_models')}(%s)"
        " where engine = 'spark' order by model_name",
        (target.slot,),
    )
    found = [
        Plan(
            facts[name],
            ModelState.of(state),
            lsn.parse(str(begin)),
            lsn.parse(str(position)),
            baseline,
            is_rebuild,
            is_ready,
            is_locked,
        )
        for name, begin, position, baseline, is_rebuild, is_ready, is_locked, *state in rows
        if name in facts
    ]
    if not found:
        raise SettingError(
            f"no fact of the slot {target.slot} says engine='spark'",
            "declare one so and run `dbt build`; `loader run --build` applies the others",
        )
    unknown = set(settings.facts) - {each.fact.name for each in found}
    if unknown:
        raise SettingError(
            f"--fact names {', '.join(sorted(unknown))}, and the facts that say engine='spark' are"
            f" {', '.join(each.fact.name for each in found)}",
            "name one of these",
        )
    return [each for each in found if not settings.facts or each.fact.name in settings.facts]


_CHANGES_PER_TASK = 20_000
"""A second or two of one core."""


@dataclass(frozen=True)
class Computed:
    """What a batch adds: the groups that are written, and what could not be counted."""

    written: Written
    rejected_lsn: int | None
    left_out: str


def apply(spark: SparkSession, target: TargetSession, plan: Plan, to_lsn: int) -> bool:
    """Bring a fact to the position; return whether it is there, as apply_computed."""
    batch = str(uuid.uuid4())
    computed = Computed(Written([], 0), None, "{}")
    if _any(target, plan.from_lsn, to_lsn, "true"):
        few = _end(target, plan.from_lsn, to_lsn, session.FEW_ROWS)
        with session.fitted(spark, 0 if few == to_lsn else session.FEW_ROWS + 1):
            computed = compute(spark, target, plan, to_lsn, batch)
    failpoints.reach("computed")
    merged = target.ask(
        f"select {target.table('apply_computed')}(%s, %s, %s, %s, %s, %s, row(%s, %s, %s, %s, %s))",
        (
            target.slot,
            str(plan.fact.relation),
            json.dumps(plan.fact.declaration),
            plan.baseline_id,
            lsn.show(plan.from_lsn),
            lsn.show(to_lsn),
            batch,
            computed.written.attempts,
            computed.written.row_count,
            None if computed.rejected_lsn is None else lsn.show(computed.rejected_lsn),
            computed.left_out,
        ),
    )
    failpoints.reach("merged")
    return merged == [(True,)]


def fill_roll_ups(target: TargetSession) -> None:
    """Have the database fill the roll-ups that can be filled now, as those of a new fact."""
    due = (
        f"select 1 from {target.table('plan_roll_ups')}(%s)"
        " where step = 'fill' and coalesce(retry_at <= clock_timestamp(), true)"
    )
    fill = f"select from {target.table('apply')}(%s, 'behind')"
    while target.ask(due, (target.slot,)):
        target.ask(fill, (target.slot,))


def end_of(target: TargetSession, settings: ApplySettings, plan: Plan) -> int:
    """Return where the fact's next batch ends; a rebuild is whole, so readers never go back."""
    if plan.is_rebuild or plan.position <= plan.from_lsn:
        return max(plan.position, plan.from_lsn)
    return _end(target, plan.from_lsn, plan.position, settings.max_changes)


def compute(
    spark: SparkSession, target: TargetSession, plan: Plan, to_lsn: int, batch: str
) -> Computed:
    """Compute what the changes add, and write it where the database finds it."""
    fact = plan.fact
    found = changes.read(spark, target, plan.from_lsn, to_lsn, _CHANGES_PER_TASK)
    may_truncate = _any(target, plan.from_lsn, to_lsn, "action is null or action = 'T'")
    own = FactChanges(found, fact, target.slot, may_truncate=may_truncate)
    own.classified.persist()
    try:
        written = arrow.append(
            _rows(own, target.slot, batch),
            resolved(target),
            Table(target.schema, "computed_group"),
        )
        failpoints.reach("written")
        rejected_lsn, left_out = own.uncounted()
        return Computed(written, rejected_lsn, _as_json(left_out, own.truncates))
    finally:
        own.classified.unpersist()


def _rows(own: FactChanges, slot: str, batch: str) -> DataFrame:
    """Return the rows of computed_group."""
    fact = own.fact
    found = own.deltas().select(
        sql.lit(None).cast("string").alias("part"),
        sql.lit(None).cast("bigint").alias("commit_lsn"),
        "dimensions",
        "sums",
    )
    if any(each.ignores_deletes for each in fact.tables):
        found = found.unionByName(own.archived_deletes("commit_lsn"))
    return found.select(
        sql.lit(slot).alias("slot_name"),
        sql.lit(str(fact.relation)).alias("model_name"),
        sql.lit(batch).alias("batch"),
        "part",
        "commit_lsn",
        "dimensions",
        "sums",
    )


def _as_json(counts: Mapping[str, int], truncates: Mapping[str, object]) -> str:
    return json.dumps(
        {
            part: {"row_count": counts.get(part, 0), "is_truncated": part in truncates}
            for part in counts.keys() | truncates.keys()
        }
    )


def _any(target: TargetSession, begin: int, end: int, condition: str) -> bool:
    """Return whether the log has a change in between for which the condition holds."""
    rows = target.ask(
        f"select exists (select from {target.table('change_log')}"
        " where slot_name = %s and commit_lsn >= %s and commit_lsn < %s"
        f" and ({condition}))",
        (target.slot, lsn.show(begin), lsn.show(end)),
    )
    return rows == [(True,)]


def _end(target: TargetSession, begin: int, end: int, size: int) -> int:
    """Return where about so many changes end."""
    return next(changes.ends(target, begin, end, size))
