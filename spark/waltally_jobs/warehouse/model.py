"""A model as it is built: its state, and its rows, position and baseline as of one moment."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from loader.source.asking_tables import COUNTED
from loader.source.table_identity import TableIdentities
from loader.staging.records import MODEL_STATE, ModelState
from loader.staging.target_state import Part, apply
from waltally import lsn
from waltally.errors import NotSetUp
from waltally.models import Model, ModelTable
from waltally.tables import Table, literal
from waltally_jobs.common.connections import TargetSession

_PAUSE_SECONDS = 0.005
"""Before another call of apply while others wait for this one."""


@dataclass(frozen=True)
class Built:
    """The model as it was at `position`: every change with a commit LSN below it is applied.

    It was built on the baseline at `baseline_lsn`, None where on none. `rejected_count` changes
    could not be counted, the first at `rejected_lsn`.
    """

    model: Model
    position: int
    baseline_lsn: int | None
    counted: TableIdentities
    rejected_count: int
    rejected_lsn: int | None


def emptied_parts(
    model: Model, emptied: Mapping[str, int], baseline_lsn: int | None
) -> list[ModelTable]:
    """Return the tables of which a partition went after the baseline; its rows still count.

    No change said which rows these were. `emptied` is what the target session's `emptied` said
    once the loader had come to where the tables were counted.
    """
    return [
        part
        for part in model.tables
        if part.ignores_deletes and emptied.get(str(part.table), 0) > (baseline_lsn or 0)
    ]


def counted(target: TargetSession, model: Model) -> tuple[int | None, TableIdentities]:
    """Return where the model's baseline is, and which tables it counted. Raises NotSetUp."""
    known = {name: own for name, *own in target.ask_staging(COUNTED, (target.slot,))}
    if model.name not in known:
        raise forgotten(model)
    at, identities = known[model.name]
    return None if at is None else lsn.parse(str(at)), identities or {}


def is_gap(target: TargetSession, model: Model, position: int) -> bool:
    """Return whether the log lacks changes of the model's tables from the position on."""
    limits = target.limits([model])
    return any(position < at for at, kind, *_ in limits if kind != "baseline")


def read(target: TargetSession, model: Model) -> Built:
    """Return a model as the session sees it.

    Raises NotSetUp or BuildFailed where it does not follow the change log.
    """
    position = applied_lsn(target, model)
    return Built(model, position, *counted(target, model), *_rejected(target, model))


def _rejected(target: TargetSession, model: Model) -> tuple[int, int | None]:
    """Return how many changes were rejected, and where the first one is.

    None where the model rejected_changes was never built.
    """
    listed = Table(model.relation.schema, "rejected_changes").quoted
    if target.ask("select to_regclass(%s)", (listed,)) == [(None,)]:
        return 0, None
    # No parameters: beside them a % in the schema's name would be one too.
    mine = f"slot_name = {literal(target.slot)} and model_name = {literal(str(model.relation))}"
    ((count, first),) = target.ask(
        f"select count(*), min(commit_lsn)::text from {listed} where {mine}"
    )
    return count, None if first is None else lsn.parse(first)


def read_state(target: TargetSession, model: Model) -> ModelState:
    """Return the state of a registered model. Raises NotSetUp."""
    rows = target.ask(
        f"select {MODEL_STATE} from {target.table('model_state')}"
        " where slot_name = %s and relation = %s",
        (target.slot, str(model.relation)),
    )
    if not rows:
        raise forgotten(model)
    return ModelState.of(rows[0])


def forgotten(model: Model) -> NotSetUp:
    """Return the error for a model that is registered no more, as it was when the job began."""
    return NotSetUp(
        f"{model.relation} was forgotten while the job ran",
        "run it again, without this model; `dbt build` installs it again",
    )


def is_rebuild_due(target: TargetSession, models: Sequence[Model]) -> bool:
    """Return whether an apply of the database starts one of the models from its baseline."""
    rows = target.ask(
        "select bool_or(step = 'rebuild' and (state <> 'failed' or is_locked))"
        f" from {target.table('explain_models')}(%s)"
        " where engine = 'database' and relation = any (%s)",
        (target.slot, [str(model.relation) for model in models]),
    )
    return rows == [(True,)]


def bring_on(
    target: TargetSession,
    models: Sequence[Model],
    until: float,
    part: Part = "all",
    position: int | None = None,
) -> None:
    """Call `cdc.apply` until none of the models is behind, or until a time of `time.monotonic`.

    `part` and `position` are its arguments. Raises LoaderError.
    """
    relations = {str(model.relation) for model in models}
    while any(
        each.is_behind and each.relation in relations for each in apply(target, part, position)
    ):
        if time.monotonic() > until:
            return
        time.sleep(_PAUSE_SECONDS)


def applied_lsn(target: TargetSession, model: Model) -> int:
    """Return the position of a model that follows. Raises NotSetUp, or BuildFailed."""
    found = read_state(target, model)
    if found.error:
        raise found.error
    assert found.applied_lsn is not None
    return found.applied_lsn
