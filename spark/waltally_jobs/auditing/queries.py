"""Compares models that are queries with the query itself, which the source's server evaluates.

Where it differs from the target's server, that one does over the source's values. No rule of a
query is written here. What ranges of a table give travels as PostgreSQL's text into a
table of the target's session, where SQL adds it up and compares it with what the model keeps.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from tempfile import TemporaryFile
from typing import IO

from waltally import lsn
from waltally.database import Connection
from waltally.models import Declaration, Model
from waltally.tables import literal
from waltally_jobs.auditing.report import RejectedRows
from waltally_jobs.common.arrow import Start
from waltally_jobs.common.command import Settings
from waltally_jobs.common.compared import Comparison
from waltally_jobs.common.connections import TargetSession
from waltally_jobs.common.errors import AuditIncomplete
from waltally_jobs.common.progress import print_status
from waltally_jobs.evaluation import copies, queries
from waltally_jobs.evaluation.places import differ
from waltally_jobs.evaluation.queries import RejectedRow, Rows
from waltally_jobs.evaluation.snapshot import ExportedSnapshot
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
    start: Start | None,
    settings: Settings,
    target: TargetSession,
    source: Connection,
    built: Built,
    exported: ExportedSnapshot,
    is_uncertain: bool,
    limit: int,
) -> tuple[Comparison, dict[str, str], list[RejectedRows]]:
    """Compare a model at the snapshot with its query there.

    Returns also how much of each measure is of rows that were purged, and the rows that the query
    cannot take. With `is_uncertain` only counts that are too small are differences. Raises
    LoaderError.
    """
    model = built.model
    if built.position != exported.position:
        raise AuditIncomplete(
            f"{model.relation} is at {lsn.show(built.position)} and not at"
            f" {lsn.show(exported.position)}, where its query was to be compared: another session"
            " builds it, or it was seeded meanwhile",
            f"run the {settings.work} again",
        )
    print_status(f"evaluating {model.name} at {lsn.show(exported.position)}")
    with TemporaryFile() as file:
        rejected_rows = list(_evaluate(start, settings, target, source, model, exported, file))
        file.seek(0)
        with _stored(target, file), _at(target, built):
            print_status(f"comparing {model.relation}")
            comparison, purged = groups.compare(
                target, model, model.relation.quoted, _COUNTED, is_uncertain, limit
            )
    ignores = any(part.ignores_deletes for part in model.tables)
    return comparison, purged if ignores else {}, rejected_rows


def require_query(target: TargetSession, model: Model) -> None:
    """Raise AuditIncomplete where the model's rows are of another query than is registered."""
    if target.ask_staging(_BUILT_BY, (target.slot, str(model.relation))) != [(model.declaration,)]:
        raise AuditIncomplete(
            f"{model.relation} is not built by the query that is registered for it",
            "`loader status` says what it waits for; then the audit again",
        )


def _evaluate(
    start: Start | None,
    settings: Settings,
    target: TargetSession,
    source: Connection,
    model: Model,
    exported: ExportedSnapshot,
    file: IO[bytes],
) -> Iterator[RejectedRows]:
    """Append what each range gives to the file; yield the rows that the query cannot take."""

    def take(session: Connection, rows: Rows, query: str) -> None:
        queries.copied(session, f"{literal(rows.part.name)}, dimensions, sums", query, file)

    with contextlib.ExitStack() as stack:
        if differ(source, target, [model]):
            parts = [(model, part) for part in model.tables]
            empty = stack.enter_context(copies.made(target, parts))
            filled = copies.fill(start, target, empty, exported, settings.partitions)
            taken = copies.evaluated(target, filled, take)
        else:
            taken = queries.at_source(settings, target, [model], exported, take)
        rejected: dict[tuple[str, str], int] = {}
        for _, part, found in taken:
            if isinstance(found, RejectedRow):
                key = (str(part.table), found.reason)
                rejected[key] = rejected.get(key, 0) + found.count
    yield from (RejectedRows(*key, count) for key, count in sorted(rejected.items()))


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
