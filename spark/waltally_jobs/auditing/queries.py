"""Compares models with what Spark's tasks have counted of their tables, by SQL of the target."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Sequence
from tempfile import TemporaryFile
from typing import IO

from waltally import lsn
from waltally.models import Declaration, Model
from waltally.tables import Table, literal
from waltally_jobs.common.command import Settings
from waltally_jobs.common.compared import Comparison
from waltally_jobs.common.connections import TargetSession
from waltally_jobs.common.errors import AuditIncomplete
from waltally_jobs.common.progress import print_status
from waltally_jobs.warehouse import groups
from waltally_jobs.warehouse.model import Built

_BUILT_BY = "select declaration from {}.model_watermark where slot_name = %s and model_name = %s"
_COUNTED = "pg_temp.waltally_counted"


def applied(target: TargetSession, models: Sequence[Model]) -> list[Model]:
    """Return the models with the query that is applied: one that has changed waits for its seed."""
    rows = target.ask_staging(
        "select declared_name, compiled from {}.known_model where slot_name = %s and is_former",
        (target.slot,),
    )
    former: dict[str, Declaration] = dict(rows)
    return [
        Model(model.name, model.relation, former[model.name]) if model.name in former else model
        for model in models
    ]


def compare(
    target: TargetSession,
    built: Built,
    counted: Table,
    attempts: Collection[int],
    is_uncertain: bool,
    limit: int,
) -> tuple[Comparison, dict[str, str]]:
    """Compare a model with its groups that these attempts have written into a table.

    Returns also how much of each measure is of rows that were purged. With `is_uncertain` only
    counts that are too small are differences. Raises LoaderError.
    """
    model = built.model
    print_status(f"comparing {model.relation}")
    with TemporaryFile() as file:
        target.copy(
            f"copy (select part, dimensions, sums from {counted.quoted}"
            f" where model = {literal(model.name)} and reason is null"
            f" and attempt = any ('{{{','.join(map(str, attempts))}}}')) to stdout",
            file,
        )
        file.seek(0)
        with _stored(target, file), _at(target, built):
            comparison, purged = groups.compare(
                target, model, model.relation.quoted, _COUNTED, is_uncertain, limit
            )
    ignores = any(part.ignores_deletes for part in model.tables)
    return comparison, purged if ignores else {}


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
    if target.ask_staging(_BUILT_BY, (target.slot, str(model.relation))) != [(model.declaration,)]:
        raise AuditIncomplete(
            f"{model.relation} is not built by the query that is registered for it",
            "`loader status` says what it waits for; then the audit again",
        )


@contextlib.contextmanager
def _stored(target: TargetSession, file: IO[bytes]) -> Iterator[None]:
    """Have the rows of the file in a table of the session within the block."""
    with target.transaction():
        target.ask(f"create temporary table {_COUNTED} (part text, dimensions text[], sums text[])")
        # Frozen rows are seen in a snapshot that is older than they are.
        target.copy(f"copy {_COUNTED} from stdin (freeze)", file)
    try:
        yield
    finally:
        target.ask(f"drop table {_COUNTED}")


@contextlib.contextmanager
def _at(target: TargetSession, built: Built) -> Iterator[None]:
    """Read within the block as of the model's snapshot."""
    target.ask("begin isolation level repeatable read read only")
    try:
        target.ask(f"set transaction snapshot '{built.snapshot}'")
        target.ask("set local work_mem to '64MB'")
        yield
    finally:
        target.ask("rollback")
