"""The rows that were deleted from tables whose deletes a model ignores: a new baseline keeps them.

The model wrote them down when it ignored their deletes, in the staging table ignored_delete. So at
position X a table adds to a group what its rows add, and what was deleted from it before X. The
first baseline of a declaration counts the stored rows alone: no baseline had counted the others.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from loader.staging.records import builder
from loader.staging.target_state import apply
from waltally import locks, lsn
from waltally.errors import TableReplaced
from waltally.models import Model
from waltally.tables import literal
from waltally_jobs.common.command import Settings
from waltally_jobs.common.connections import TargetSession
from waltally_jobs.common.errors import AuditIncomplete, CountingFailed
from waltally_jobs.common.progress import print_status
from waltally_jobs.warehouse import loader_progress
from waltally_jobs.warehouse.model import counted, emptied_parts, forgotten, is_gap

FORGET = "--forget-purged counts the stored rows alone"
_POLL_SECONDS = 0.2


@dataclass(frozen=True)
class IgnoredDeletes:
    """A model's ignored deletes in its baseline: of how many rows and groups they are.

    `gap_lsn`: deletes from there on, up to where the change log is whole, were never applied.
    """

    rows: int = 0
    groups: int = 0
    gap_lsn: int | None = None


def find(target: TargetSession, model: Model) -> int | None:
    """Return up to where the deletes that the model ignores are in its baseline or written down.

    None where it ignores none, or no baseline has counted it as it is declared now.
    """
    if all(not part.ignores_deletes for part in model.tables):
        return None
    rows = target.ask(
        "select coalesce("
        "case when coalesce(baseline.baseline_id = mark.baseline_id, true)"
        " then mark.applied_lsn end,"
        " case when baseline.declaration = model.declaration then baseline.snapshot_lsn end)::text"
        f" from {target.table('registered_model')} as model"
        f" left join {target.table('baseline')} as baseline using (slot_name, model_name)"
        f" left join {target.table('model_watermark')} as mark"
        " on mark.slot_name = model.slot_name and mark.relation = %s"
        " and mark.declaration = model.declaration and mark.baseline_id is not null"
        " where model.slot_name = %s and model_name = %s",
        (str(model.relation), target.slot, model.name),
    )
    return None if not rows or rows[0][0] is None else lsn.parse(rows[0][0])


def remembering(target: TargetSession, settings: Settings, models: Sequence[Model]) -> list[Model]:
    """Return the models whose ignored deletes the seed is to keep."""
    if settings.forget_purged:
        return []
    return [model for model in models if find(target, model) is not None]


def none_went_unseen(target: TargetSession, models: Sequence[Model]) -> None:
    """Raise TableReplaced where counted rows went with a partition, and nothing says which."""
    emptied = target.emptied()
    for model in models:
        for part in emptied_parts(model, emptied, counted(target, model)[0]):
            raise TableReplaced(
                f"a partition of {part.table} was dropped, detached or truncated, and a new"
                f" baseline would lose its rows, which {model.relation} still counts",
                f"seed the other models with --model; {FORGET}",
            )


def needs_changes(target: TargetSession, models: Sequence[Model]) -> bool:
    """Return whether one of the models goes on with the change log."""
    known = ((model, find(target, model)) for model in models)
    return any(at is not None and not is_gap(target, model, at) for model, at in known)


def wait(
    target: TargetSession, settings: Settings, models: Sequence[Model], position: int
) -> dict[str, int]:
    """Return once the models have written down every delete that they ignore before the position.

    Where the change log does not go on from a model, nobody can know these: returns by the model's
    name the position up to which they are written down. Raises AuditIncomplete, NotSetUp.
    """
    gaps, pending = {}, []
    for model in models:
        known_lsn = find(target, model)
        if known_lsn is None or known_lsn >= position:
            continue
        if is_gap(target, model, known_lsn):
            gaps[model.name] = known_lsn
        else:
            pending.append(model)
    if pending:
        loader_progress.wait_for_position(target, settings, position)
        print_status(f"applying the changes before {lsn.show(position)}")
    deadline = time.monotonic() + settings.timeout
    while pending:
        found = {each.relation: each for each in apply(target)}
        for model in pending:
            if str(model.relation) not in found:
                raise forgotten(model)
        states = {model.name: found[str(model.relation)] for model in pending}
        pending = [model for model in pending if (find(target, model) or 0) < position]
        for state in (states[model.name] for model in pending):
            # With such a remedy it goes on by itself.
            is_waited_for = state.is_behind or (state.remedy or "").startswith("nothing")
            is_stuck = state.state != "follows" and not is_waited_for
            if is_stuck or time.monotonic() > deadline:
                raise AuditIncomplete(
                    f"{state.name} has not applied the changes before {lsn.show(position)}, so not"
                    " all deletes that it ignores are known:"
                    f" {state.reason or 'nobody has brought it there'}",
                    f"{state.remedy or f'see that {builder(state.engine)} runs'}; then run the seed"
                    f" again; {FORGET}",
                )
        if pending and not any(states[model.name].is_behind for model in pending):
            time.sleep(_POLL_SECONDS)
    return gaps


def keep_still(target: TargetSession, models: Sequence[Model]) -> None:
    """Let the models that ignore deletes stay as they are until the open transaction ends.

    As dbt and `loader forget` begin: what else the transaction locks comes after it.
    """
    for model in sorted(models, key=lambda each: str(each.relation)):
        if any(part.ignores_deletes for part in model.tables):
            locks.wait(target, "model", str(model.relation))


def settle(
    target: TargetSession, settings: Settings, model: Model, position: int, gap_lsn: int | None
) -> IgnoredDeletes:
    """Bring the deletes before the position together, one row a group; or forget them.

    In the seed's storing transaction, in which `keep_still` keeps the model as it is. Before a
    first baseline nothing counts. Raises CountingFailed where the model was rebuilt since `wait`.
    """
    if all(not part.ignores_deletes for part in model.tables):
        return IgnoredDeletes()
    ignored = target.table("ignored_delete")
    before = of_model(target, model, position)
    known_lsn = find(target, model)
    if known_lsn is None or settings.forget_purged:
        target.ask(f"delete {before}")
        return IgnoredDeletes()
    if gap_lsn is None and known_lsn < position:
        raise CountingFailed(
            f"{model.relation} was rebuilt while the seed was counting", "run the seed again"
        )
    ((rows, groups),) = target.ask(
        f"select coalesce(sum(measures[{(model.counting_ordinal or 0) + 1}]), 0)::bigint,"
        f" count(distinct (part, dimensions)) {before}"
    )
    total = summed(model, "sum(measures[{}])")
    target.ask(
        f"with gone as (delete {before} returning *)"
        f" insert into {ignored} (slot_name, relation, part, commit_lsn, dimensions, measures)"
        f" select slot_name, relation, part, max(commit_lsn), dimensions, {total}"
        " from gone group by slot_name, relation, part, dimensions"
    )
    return IgnoredDeletes(rows, groups, gap_lsn)


def of_model(target: TargetSession, model: Model, position: int) -> str:
    """Return SQL: from the deletes that the model ignored before the position."""
    return (
        f"from {target.table('ignored_delete')}"
        f" where slot_name = {literal(target.slot)}"
        f" and relation = {literal(str(model.relation))}"
        f" and commit_lsn < {literal(lsn.show(position))}"
    )


def summed(model: Model, term: str) -> str:
    """Return SQL: an array of what `term` gives for the ordinal of each measure."""
    ordinals = range(1, len(model.measures) + 1)
    return f"array[{', '.join(term.format(ordinal) for ordinal in ordinals)}]"
