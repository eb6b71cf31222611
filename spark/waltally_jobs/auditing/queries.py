"""Compares models with what Spark's tasks have counted of their tables, by SQL of the target."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Collection, Iterator, Sequence

from waltally import lsn
from waltally.errors import CannotConnect, Interrupted
from waltally.models import Declaration, Model
from waltally.tables import Table, literal
from waltally_jobs.auditing.report import Compared, Comparison, Difference
from waltally_jobs.common.command import Settings
from waltally_jobs.common.connections import TargetSession
from waltally_jobs.common.errors import AuditIncomplete
from waltally_jobs.common.progress import print_status
from waltally_jobs.evaluation.tasks import of_attempt
from waltally_jobs.warehouse.model import Built

_BUILT_BY = "select declaration from {}.model_watermark where slot_name = %s and relation = %s"


def applied(target: TargetSession, models: Sequence[Model]) -> list[Model]:
    """Return the models with the query that is applied: one that has changed waits for its seed."""
    rows = target.ask_staging(
        "select model_name, compiled from {}.known_model where slot_name = %s and is_former",
        (target.slot,),
    )
    former: dict[str, Declaration] = dict(rows)
    return [
        Model(model.name, model.relation, former[model.name]) if model.name in former else model
        for model in models
    ]


def compare(
    target: TargetSession,
    model: Model,
    groups: Table,
    attempts: Collection[int],
    is_uncertain: bool,
    limit: int,
) -> tuple[Comparison, dict[str, str]]:
    """Compare a model with its groups that these attempts have written, in the session's moment.

    Returns also how much of each measure is of ignored deletes. With `is_uncertain` only
    counts that are too small are differences. Raises LoaderError.
    """
    print_status(f"comparing {model.relation}")
    counted = " union all ".join(
        f"select part, dimensions, sums from {of_attempt(groups, attempt).quoted}"
        f" where model = {literal(model.name)}"
        for attempt in attempts
    )
    ignored = (
        f"select part, dimensions, measures from {target.table('ignored_delete')}"
        f" where slot_name = {literal(target.slot)}"
        f" and relation = {literal(str(model.relation))}"
    )
    values = (counted, ignored, is_uncertain, limit)
    ((query,),) = target.ask_staging(
        "select {}.write_comparison(%s, %s, %s, %s, %s, %s)",
        (json.dumps(model.declaration), model.relation.quoted, *values),
    )
    # Texts of keys are as in the query's time zone.
    zone = model.declaration["timezone"]
    with _undone(target):
        target.ask(
            "select set_config('work_mem', '64MB', true), set_config('timezone', %s, true)", (zone,)
        )
        ((count, totals, differing, largest),) = target.ask(query)
    # What the query does not show itself is told only where it differs.
    shown = [each for each in totals if not each[0].startswith("waltally_") or each[1] != each[2]]
    names = [each.name for each in model.dimensions]
    differences = [
        Difference(measure, own, right, dict(zip(names, key, strict=True)))
        for key, measure, own, right in largest
    ]
    found = [Compared(*each) for *each, _ in shown]
    ignores = any(part.ignores_deletes for part in model.tables)
    purged = {name: own for name, *_, own in shown} if ignores else {}
    return Comparison(count, found, differing, differences), purged


@contextlib.contextmanager
def _undone(target: TargetSession) -> Iterator[None]:
    """Roll back what the block does, as its lock of the model; what is read after it goes on."""
    target.ask("savepoint compared")
    try:
        yield
    finally:
        # Where the session has ended, what the block raises says more.
        with contextlib.suppress(CannotConnect, Interrupted):
            target.ask("rollback to savepoint compared")


@contextlib.contextmanager
def of_one_query(target: TargetSession, model: Model) -> Iterator[None]:
    """Raise AuditIncomplete where another query has taken the model's place within the block.

    An older snapshot sees no row in a table that has got other columns. `target` sees what is now.
    """
    try:
        yield
    finally:
        if not _is_built(target, model):
            raise AuditIncomplete(
                f"{model.relation} got another query while the audit ran", "run the audit again"
            )


def require_position(settings: Settings, built: Built, position: int) -> None:
    """Raise AuditIncomplete where the model is not where its tables are counted."""
    if built.position != position:
        raise AuditIncomplete(
            f"{built.model.relation} is at {lsn.show(built.position)} and not at"
            f" {lsn.show(position)}, where its query was to be compared: another session"
            " builds it, or it was seeded meanwhile",
            f"run the {settings.work} again",
        )


def require_query(target: TargetSession, model: Model) -> None:
    """Raise AuditIncomplete where the model's rows are of another query than is registered."""
    if not _is_built(target, model):
        raise AuditIncomplete(
            f"{model.relation} is not built by the query that is registered for it",
            "`loader status` says what it waits for; then the audit again",
        )


def _is_built(target: TargetSession, model: Model) -> bool:
    built = target.ask_staging(_BUILT_BY, (target.slot, str(model.relation)))
    return built == [(model.declaration,)]
