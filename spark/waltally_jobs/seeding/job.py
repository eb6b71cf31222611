"""The seed from start to end: checks, snapshot, counting, replacing the baselines."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Annotated

import typer

from loader.staging.records import SlotPosition
from waltally import lsn
from waltally.errors import LoaderError, NotSetUp
from waltally.models import Model, source_tables
from waltally.options import Schema, Slot, Source, Target
from waltally.settings import DEFAULT_SCHEMA, DEFAULT_SLOT
from waltally_jobs.common import session
from waltally_jobs.common.command import (
    DEFAULT_TIMEOUT,
    AsJson,
    Job,
    Models,
    Partitions,
    Settings,
    Timeout,
)
from waltally_jobs.common.connections import TargetSession, connect, connect_target
from waltally_jobs.common.progress import print_lines, print_status
from waltally_jobs.common.session import Sessions
from waltally_jobs.evaluation import checks, queries, snapshot
from waltally_jobs.evaluation.giving_way import until_done
from waltally_jobs.seeding import ignored_deletes, store
from waltally_jobs.seeding.store import StoredBaseline, acquire_seed_lock
from waltally_jobs.seeding.summary import ModelSummary, Summary
from waltally_jobs.warehouse import loader_progress
from waltally_jobs.warehouse.model import bring_on, is_rebuild_due, read_state


def seed(settings: Settings) -> Summary:
    """Count the tables and replace the models' baselines. Raises LoaderError; the old ones stay."""
    begun = time.monotonic()
    with contextlib.ExitStack() as stack:
        target = stack.enter_context(contextlib.closing(connect_target(settings)))
        slot = target.position()
        models = target.registered_models(settings.models)
        counted = from_tables(stack, target, settings, slot, models)
        stored = store.replace(target, settings, models, counted)
        follow(target, settings, models)
        summaries = list(summarized(target, models, stored))
    return Summary(
        str(counted.baseline_id),
        settings.slot,
        lsn.show(counted.snapshot_lsn),
        time.monotonic() - begun,
        summaries,
    )


def summarized(
    target: TargetSession, models: Sequence[Model], stored: Mapping[str, StoredBaseline]
) -> Iterator[ModelSummary]:
    """Yield what is stored of each model, and say which was forgotten since."""
    for model in models:
        try:
            yield ModelSummary(model, stored[model.name], read_state(target, model))
        except NotSetUp as error:
            print_status(error.sentence)


def follow(target: TargetSession, settings: Settings, models: Sequence[Model]) -> None:
    """Have the database start the models from their new baselines, as far as the log reaches.

    Other models stay fresh meanwhile. What cannot be applied is said by the model's state.
    """
    with contextlib.suppress(LoaderError):
        if is_rebuild_due(target, models):
            print_status("building the models on their new baselines")
        bring_on(target, models, time.monotonic() + settings.timeout, "catching up")


def from_tables(
    stack: contextlib.ExitStack,
    target: TargetSession,
    settings: Settings,
    slot: SlotPosition,
    models: Sequence[Model],
) -> store.Counted:
    """Count the tables at the source; write the groups."""
    source = stack.enter_context(contextlib.closing(connect(settings.source, "source")))
    checks.source(source, target, slot)
    checks.tables(source, models)
    remembering = ignored_deletes.remembering(target, settings, models)
    ignored_deletes.none_went_unseen(target, remembering)
    if ignored_deletes.needs_changes(target, remembering):
        # Before Spark starts, which takes seconds.
        loader_progress.require_follower(target, settings, ignored_deletes.FORGET)
    stack.enter_context(acquire_seed_lock(target, settings, models))
    loader_progress.wait_until_followed(target, settings, models)
    spark = stack.enter_context(session.running("seed", settings.timeout))
    work = Sessions(settings, target, source, spark)
    counted = until_done("seed", lambda: count(work, models, bool(remembering)))
    # Again: a model may have been built for the first time meanwhile.
    remembering = ignored_deletes.remembering(target, settings, models)
    gaps = ignored_deletes.wait(target, settings, remembering, counted.snapshot_lsn)
    ignored_deletes.none_went_unseen(target, remembering)
    return replace(counted, slot=slot, gaps=gaps)


def count(work: Sessions, models: Sequence[Model], wakes_loader: bool) -> store.Counted:
    """Count all models' tables and write the groups; return where they were counted.

    With `wakes_loader` an idle loader comes to that position, so that deletes before it are
    applied. Raises BeginAgain.
    """
    source, target = work.source, work.target
    with contextlib.ExitStack() as stack:
        exported = stack.enter_context(snapshot.export(work.settings, models, source))
        store.keep_log(target, models, exported.position)
        if wakes_loader:
            loader_progress.emit_message(source)
        tables = ", ".join(map(str, source_tables(models)))
        print_status(f"counting {tables} at {lsn.show(exported.position)}")
        written = queries.count(work, models, exported, target.incoming, stack.close)
    queries.refuse_many(queries.rejected(target, target.incoming, written), models)
    return store.Counted(exported.position, exported.tables.identities, written=written)


app = Job("The previous seed, if any, is intact.")


@app.command()
def run(
    source: Source = "",
    target: Target = "",
    slot: Slot = DEFAULT_SLOT,
    schema: Schema = DEFAULT_SCHEMA,
    model: Models = None,
    partitions: Partitions = 0,
    timeout: Timeout = DEFAULT_TIMEOUT,
    forget_purged: Annotated[
        bool,
        typer.Option(
            "--forget-purged",
            help="Count only stored rows; else rows purged from tables whose deletes are ignored"
            " stay counted.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Count the models' tables at one WAL position, while writers go on; store the baselines.

    For instance: spark-submit spark/seed.py --model ft_service_stats --partitions 16
    """
    summary = seed(
        Settings(
            target or source,
            slot,
            schema,
            source,
            tuple(model or ()),
            partitions,
            timeout,
            forget_purged=forget_purged,
        )
    )
    print_lines([json.dumps(summary.as_json())] if as_json else summary.lines())
