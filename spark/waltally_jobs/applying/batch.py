"""The next batch of the models that Spark applies, as the database decides it.

One pass over the changes computes it for all of them. The database adds it to each model in one
transaction, only where the model is still as its plan says. So a batch that is computed twice, by
two jobs or after a crash, counts once.
"""

from __future__ import annotations

import itertools
import json
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from pyspark.sql import SparkSession

from loader.staging.records import ModelState
from waltally import failpoints, lsn
from waltally.errors import SettingError
from waltally.models import Model
from waltally.settings import SlotSettings
from waltally.tables import Table
from waltally_jobs.common import arrow, changes
from waltally_jobs.common.arrow import Read
from waltally_jobs.common.connections import TargetSession, resolved
from waltally_jobs.moving import reading as moving
from waltally_jobs.moving.reading import Place, changes_of

MAX_CHANGES = 2_000_000


@dataclass(frozen=True)
class ApplySettings(SlotSettings):
    """What the job needs to know.

    `models` are the names of models, empty for all. `interval` is how many seconds it rests where
    there is nothing to do, None to end once everything that was staged at the start is applied. A
    batch has about `max_changes` changes, and whole transactions.
    """

    models: tuple[str, ...] = ()
    interval: float | None = None
    max_changes: int = MAX_CHANGES


@dataclass(frozen=True)
class Plan:
    """The next step of a model: the changes from `from_lsn` on, for the rows on this baseline.

    With `is_ready` there is a step and it need not wait for its next try; with `is_locked` it
    failed because somebody had locked it.
    """

    model: Model
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
    """Return the plans of the models that Spark applies, in the order of their names.

    Raises SettingError where there is none, or where --model names another one.
    """
    # Of a query that has changed the former one goes on, and a copy has a relation of its own.
    rows = target.ask(
        "select plans.declaration, coalesce(said.from_lsn, '0/0')::text, said.position_lsn::text,"
        " said.baseline_id::text, said.step is not distinct from 'rebuild',"
        " said.step is not null and coalesce(said.retry_at <= clock_timestamp(), true),"
        " said.is_locked,"
        f" case when {target.table('is_copy')}(said.slot_name, array[relation]) then relation"
        " else model_name end, relation, said.state, said.reason, said.remedy,"
        " said.applied_lsn::text, said.engine"
        f" from {target.table('explain_models')}(%(slot)s) as said"
        f" inner join {target.table('plan_models')}(%(slot)s) as plans"
        " using (model_name, relation)"
        " where said.engine = 'spark' and plans.declaration is not null order by relation",
        {"slot": target.slot},
    )
    found = [
        Plan(
            Model(state[0], Table(*state[1].split(".", 1)), declaration),
            ModelState.of(state),
            lsn.parse(str(begin)),
            lsn.parse(str(end)),
            *decided,
        )
        for (declaration, begin, end, *decided), state in ((row[:7], row[7:]) for row in rows)
    ]
    unknown = sorted(set(settings.models) - {each.model.name for each in found})
    if unknown or not found:
        named = f" named {', '.join(unknown)}" if unknown else ""
        raise SettingError(
            f"no model{named} of the slot {target.slot} says engine='spark'",
            "declare it so and run `dbt build`; `loader run --build` applies the others",
        )
    return [each for each in found if not settings.models or each.model.name in settings.models]


CHANGES_PER_TASK = 200_000
"""Two seconds of one core. Only what looks alike in a task becomes one."""


@dataclass(frozen=True)
class Computed:
    """What a batch adds to a model: the attempts whose rows count, and how many rows they have."""

    plan: Plan
    attempts: list[int]
    row_count: int
    changes: int


@dataclass(frozen=True)
class Batch:
    """What was computed for models up to a position."""

    id: str
    to_lsn: int
    computed: list[Computed]


def end_of(target: TargetSession, settings: ApplySettings, plans: Sequence[Plan]) -> int:
    """Return where the next batch of these plans ends; a rebuild is whole: readers never go back.

    Models that catch up come first, and then go on together with the others.
    """
    position = max(each.position for each in plans)
    if any(each.is_rebuild for each in plans):
        return position
    begin = min(each.from_lsn for each in plans)
    return next(changes.ends(target, begin, position, settings.max_changes), position)


def compute(
    spark: SparkSession, target: TargetSession, plans: Sequence[Plan], to_lsn: int
) -> Batch:
    """Write the changes before the position for each model, those that look alike as one."""
    batch_id = str(uuid.uuid4())
    counts = [changes.count(target, plan.from_lsn, to_lsn) for plan in plans]
    first = min(plan.from_lsn for plan in plans)
    truncates = changes.truncates(target, first, to_lsn)
    conninfo = resolved(target)
    reads: list[Read] = []
    for begin, end in itertools.pairwise(_cuts(target, plans, to_lsn)):
        query = changes.query(target.schema, target.slot, begin, end, changes.COUNTED)
        models = [(number, p.model) for number, p in enumerate(plans) if p.from_lsn <= begin]
        reads.append(changes_of(partial(arrow.batches, conninfo, query), models, truncates))
    names = tuple(str(plan.model.relation) for plan in plans)
    place = Place(conninfo, Table(target.schema, "computed_change"), target.slot, names, batch_id)
    written = moving.move(spark, reads, place)
    failpoints.reach("written")
    return Batch(
        batch_id,
        to_lsn,
        [
            Computed(plan, [attempt for attempt, _ in own], sum(rows for _, rows in own), count)
            for plan, count, own in zip(plans, counts, written, strict=True)
        ],
    )


def _cuts(target: TargetSession, plans: Sequence[Plan], to_lsn: int) -> Iterator[int]:
    """Yield the ends of ranges, each plan's begin among them."""
    begins = {plan.from_lsn for plan in plans}
    first = min(begins)
    yield first
    inner = sorted({first, *(each for each in begins if each < to_lsn), max(first, to_lsn)})
    for begin, end in itertools.pairwise(inner):
        yield from changes.ends(target, begin, end, CHANGES_PER_TASK)


def add(target: TargetSession, batch: Batch, computed: Computed) -> bool:
    """Have the database add a batch to a model; return whether the model is at its end.

    If not, its plan is another one now, or an error is in model_state.
    """
    plan = computed.plan
    merged = target.ask(
        f"select {target.table('apply_computed')}(%s, %s, %s, %s, %s, %s, row(%s, %s, %s))",
        (
            target.slot,
            str(plan.model.relation),
            json.dumps(plan.model.declaration),
            plan.baseline_id,
            lsn.show(plan.from_lsn),
            lsn.show(max(batch.to_lsn, plan.from_lsn)),
            batch.id,
            computed.attempts,
            computed.row_count,
        ),
    )
    failpoints.reach("merged")
    return merged == [(True,)]


def fill_due(target: TargetSession) -> bool:
    """Have the database fill the models over models that are to be filled.

    Return whether one is left: somebody else fills it, or holds one that it reads.
    """
    due = (
        f"select relation from {target.table('plan_dependents')}(%s)"
        " where step = 'fill' and coalesce(retry_at <= clock_timestamp(), true) order by 1"
    )
    fill = f"select from {target.table('apply')}(%s, part => 'catching up')"
    before: object = None
    while (left := target.ask(due, (target.slot,))) and left != before:
        target.ask(fill, (target.slot,))
        before = left
    return bool(left)
