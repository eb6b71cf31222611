"""The audit from start to end: a snapshot of the tables at X, each model at X, comparison."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Annotated

import typer

from loader.source import table_identity
from loader.source.table_identity import TableIdentities
from waltally import locks, lsn
from waltally.database import Connection
from waltally.errors import (
    BuildFailed,
    LoaderError,
    NotSetUp,
    RowTooLarge,
    TableReplaced,
    combine,
)
from waltally.models import Model, source_tables
from waltally.options import Schema, Slot, Source, Target
from waltally.settings import DEFAULT_SCHEMA, DEFAULT_SLOT
from waltally.tables import Table
from waltally.units import plural
from waltally_jobs.auditing import dependents, queries, stopped
from waltally_jobs.auditing.report import ModelReport, RejectedRows, Report
from waltally_jobs.common import session
from waltally_jobs.common.command import (
    DEFAULT_HOLD,
    DEFAULT_TIMEOUT,
    AsJson,
    Job,
    Models,
    Partitions,
    Settings,
    Timeout,
)
from waltally_jobs.common.connections import TargetSession, connect, connect_target
from waltally_jobs.common.errors import AuditDiffers, AuditIncomplete
from waltally_jobs.common.progress import print_lines, print_status
from waltally_jobs.common.session import Sessions
from waltally_jobs.evaluation import checks, tables
from waltally_jobs.evaluation import queries as counting
from waltally_jobs.evaluation.giving_way import until_done
from waltally_jobs.evaluation.queries import Rejections
from waltally_jobs.warehouse import loader_progress
from waltally_jobs.warehouse import model as warehouse_model
from waltally_jobs.warehouse.model import (
    Built,
    applied_lsn,
    bring_on,
    emptied_parts,
    is_rebuild_due,
)

Refused = dict[str, LoaderError]
"""By the name of a model or a roll-up, why it cannot be compared."""


_PAUSE_SECONDS = 0.2
"""Before another look at a model that takes a new baseline."""


_OF_ONE = (NotSetUp, BuildFailed, TableReplaced, AuditIncomplete, RowTooLarge)
"""What keeps one model from being compared, and no other."""


def audit(settings: Settings, limit: int = 50) -> Report:
    """Compare the models with the tables; change nothing. Raises LoaderError where it cannot.

    A model that cannot be compared does not keep the others from it: the report says why. Of each
    model the largest `limit` differences are listed.
    """
    begun = time.monotonic()
    refused: Refused = {}
    reports: list[ModelReport] = []
    with contextlib.closing(connect_target(settings, "audit")) as target:
        position = target.position().position_lsn
        names = dependents.names(target, settings.models)
        own = tuple(name for name in settings.models if name not in names)
        if own or not settings.models:
            position, reports = of_sources(target, replace(settings, models=own), refused, limit)
        over_models = dependents.compare(target, names, refused, limit)
    if not reports and not over_models:
        raise combine(list(refused.values()))
    seconds = time.monotonic() - begun
    return Report(settings.slot, position, reports, refused, seconds, over_models)


def of_sources(
    target: TargetSession, settings: Settings, refused: Refused, limit: int
) -> tuple[int, list[ModelReport]]:
    """Compare models with tables, and note which are equal; return where, and the reports."""
    with contextlib.ExitStack() as stack:
        source = stack.enter_context(
            contextlib.closing(connect(settings.source, "source", "audit"))
        )
        models = comparable(target, source, settings, refused)
        spark = stack.enter_context(session.running("audit", settings.timeout))
        work = Sessions(settings, target, source, spark)
        (groups,) = stack.enter_context(tables.made(target, [tables.GROUPS]))

        def attempt() -> tuple[int, list[tuple[Built, ModelReport]], Refused]:
            # What kept a model from an attempt may not keep it from the next one.
            noted: Refused = {}
            return *compared(work, models, groups, noted, limit), noted

        position, found, noted = until_done("audit", attempt)
    refused.update(noted)
    note_audited(target, [built for built, report in found if not report.difference_count])
    return position, sorted((report for _, report in found), key=attrgetter("name"))


def compared(
    work: Sessions, models: Sequence[Model], groups: Table, refused: Refused, limit: int
) -> tuple[int, list[tuple[Built, ModelReport]]]:
    """Compare the models at one snapshot; note in `refused` why one cannot be compared.

    Returns the snapshot's position, and the models as they were read with their reports. Raises
    BeginAgain.
    """
    built: list[Built] = []
    found: list[tuple[Built, ModelReport]] = []
    target, settings = work.target, work.settings
    with contextlib.ExitStack() as snapshots:
        warehouse = snapshots.enter_context(contextlib.closing(connect_target(settings, "audit")))
        exported, release = stopped.open_snapshots(snapshots, work, warehouse, models)
        for model in models:
            with _noted(refused, model):
                queries.require_query(warehouse, model)
                read = warehouse_model.read(warehouse, model)
                refuse(read, exported.tables.identities)
                queries.require_position(settings, read, exported.position)
                built.append(read)
        read_models = [each.model for each in built]
        print_status(
            f"counting {', '.join(map(str, source_tables(read_models)))}"
            f" at {lsn.show(exported.position)}"
        )
        written = counting.count(work, read_models, exported, groups, release, is_frozen=True)
        rejected = counting.rejected(target, groups, written)
        for each in built:
            with _noted(refused, each.model):
                counting.refuse_many(rejected, [each.model])
                with queries.of_one_query(target, each.model):
                    own = report(warehouse, each, groups, written, rejected, limit)
                found.append((each, own))
    return exported.position, found


@contextlib.contextmanager
def _noted(refused: Refused, model: Model) -> Iterator[None]:
    """Note why the model cannot be compared."""
    try:
        yield
    except _OF_ONE as error:
        refused[model.name] = error


def comparable(
    target: TargetSession, source: Connection, settings: Settings, refused: Refused
) -> list[Model]:
    """Return the models that can be compared; note in `refused` why the others cannot.

    Raises what keeps all of them from it, before Spark starts.
    """
    checks.source(source, target, target.position())
    declared = queries.applied(target, target.registered_models(settings.models))
    take_baselines(target, settings, declared)
    models: list[Model] = []
    for model in declared:
        with _noted(refused, model):
            # Before Spark starts, which takes seconds.
            applied_lsn(target, model)
            models.append(model)
    if not models:
        raise combine(list(refused.values()))
    checks.tables(source, models)
    loader_progress.require_follower(target, settings)
    return models


def take_baselines(target: TargetSession, settings: Settings, models: Sequence[Model]) -> None:
    """Have the models rebuilt that stand on an older baseline; another session may be at it."""
    deadline = time.monotonic() + settings.timeout
    while is_rebuild_due(target, models) and time.monotonic() < deadline:
        # The baseline may be ahead of what is staged.
        loader_progress.require_follower(target, settings)
        bring_on(target, models, deadline, "catching up")
        time.sleep(_PAUSE_SECONDS)


def refuse(built: Built, found: TableIdentities) -> None:
    """Raise TableReplaced where the model was built from other tables."""
    finding = table_identity.replaced_finding(built.model, built.counted, found)
    if finding is not None:
        raise finding


def report(
    target: TargetSession,
    built: Built,
    groups: Table,
    written: Collection[int],
    rejected: Rejections,
    limit: int,
) -> ModelReport:
    """Compare a model that is at the snapshot, in the moment of the session. Raises LoaderError."""
    model = built.model
    unseen = why_unseen(built, target.emptied())
    found, purged = queries.compare(target, model, groups, written, bool(unseen), limit)
    return ModelReport(
        model.name,
        str(model.relation),
        built.position,
        found,
        purged,
        unseen,
        built.rejected_count,
        built.rejected_lsn,
        [
            RejectedRows(str(part.table), reason, count)
            for part in model.tables
            for reason, count in rejected.get((model.name, part.name), {}).items()
        ],
    )


def note_audited(target: TargetSession, built: Sequence[Built]) -> None:
    """Write down that these models are equal, but for one that was built again meanwhile."""
    if not built:
        return
    with target.transaction():
        # A call of apply that has planned takes a row that others have changed for its own no more.
        locks.wait(target, "slot", target.slot)
        for each in built:
            at = None if each.baseline_lsn is None else lsn.show(each.baseline_lsn)
            target.ask(
                f"update {target.table('model_watermark')} as mark set audited_at = now(),"
                f" major_version = {target.table('major_version')}()"
                " where slot_name = %s and relation = %s and (select snapshot_lsn"
                f" from {target.table('baseline')} as own"
                " where own.slot_name = mark.slot_name and own.baseline_id = mark.baseline_id"
                " and own.model_name = %s) is not distinct from %s",
                (target.slot, str(each.model.relation), each.model.name, at),
            )


def why_unseen(built: Built, emptied: Mapping[str, int]) -> str:
    """Return why the model may count ignored deletes that nobody wrote down; empty if it cannot."""
    return "; ".join(
        f"a partition of {part.table} was dropped, detached or truncated before"
        f" {lsn.show(emptied[str(part.table)])}, and nothing says what it held; its rows stay"
        " counted"
        for part in emptied_parts(built.model, emptied, built.baseline_lsn)
    )


app = Job("Nothing was changed.")


@app.command()
def run(
    source: Source = "",
    target: Target = "",
    slot: Slot = DEFAULT_SLOT,
    schema: Schema = DEFAULT_SCHEMA,
    model: Models = None,
    partitions: Partitions = 0,
    timeout: Timeout = DEFAULT_TIMEOUT,
    limit: Annotated[
        int, typer.Option(min=0, help="How many differences to list of each model, the largest.")
    ] = 50,
    hold: Annotated[
        float,
        typer.Option(
            min=0.1,
            metavar="SECONDS",
            help="How long an attempt may keep others from applying, while the snapshot is made and"
            " the models are brought to it.",
        ),
    ] = DEFAULT_HOLD,
    as_json: AsJson = False,
) -> None:
    """Count the tables and compare the models with them, while writers and loader go on.

    For instance: spark-submit spark/audit.py --model ft_service_stats --json --timeout 900
    """
    report = audit(
        Settings(
            target or source,
            slot,
            schema,
            source,
            tuple(model or ()),
            partitions,
            timeout,
            work="audit",
            hold=hold,
        ),
        limit,
    )
    print_lines([json.dumps(report.as_json())] if as_json else report.lines())
    differing = [
        AuditDiffers(
            f"{each.relation} differs from {each.counted} in"
            f" {plural(each.difference_count, 'value')}",
            f"{each.remedy()} (docs/runbook.md, The audit differs)",
        )
        for each in report.differing
    ]
    if found := [*differing, *report.refused.values()]:
        raise combine(found)
