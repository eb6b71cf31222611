"""The seed from start to end: checks, snapshot, counting, replacing the baselines."""

from __future__ import annotations

import contextlib
import itertools
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Annotated

import typer
from archiving.archive import Archive
from common import arrow, gathering, session
from common.command import (
    DEFAULT_TIMEOUT,
    AsJson,
    Facts,
    Job,
    Partitions,
    Settings,
    Timeout,
)
from common.connections import TargetSession, connect, connect_target
from common.errors import spark_errors
from common.progress import print_lines, print_status
from counting import checks, queries, ranges, snapshot
from counting.reading import bucket_count, counted_groups
from pyspark.sql import SparkSession
from waltally_jobs import copies, rows
from warehouse import loader_progress
from warehouse.fact import read_state

from loader.source.asking_tables import read_current
from loader.staging.records import SlotPosition
from seeding import archived, archived_facts, dropped_partitions, store
from seeding.store import acquire_seed_lock
from seeding.summary import FactSummary, Summary
from waltally import lsn
from waltally.database import Connection
from waltally.facts import Fact, QueryFact, source_tables
from waltally.options import Schema, Slot, Source, Target, parse_lsn
from waltally.settings import DEFAULT_SCHEMA, DEFAULT_SLOT


def seed(settings: Settings) -> Summary:
    """Count the tables and replace the facts' baselines. Raises LoaderError; the old ones stay."""
    begun = time.monotonic()
    with contextlib.ExitStack() as stack:
        target = stack.enter_context(contextlib.closing(connect_target(settings)))
        slot = checks.staging(target, settings)
        facts = target.registered_facts(settings.facts)
        take = from_archive if settings.archive is not None else from_tables
        counted = take(stack, target, settings, slot, facts)
        stored = store.replace(target, settings, facts, counted)
        summaries = [
            FactSummary(fact, stored[fact.name], read_state(target, fact)) for fact in facts
        ]
    return Summary(
        str(counted.baseline_id),
        settings.slot,
        lsn.show(counted.snapshot_lsn),
        time.monotonic() - begun,
        summaries,
    )


def from_tables(
    stack: contextlib.ExitStack,
    target: TargetSession,
    settings: Settings,
    slot: SlotPosition,
    facts: Sequence[Fact],
) -> store.Counted:
    """Count the tables at the source; write the groups."""
    source = stack.enter_context(contextlib.closing(connect(settings.source, "source")))
    checks.source(source, slot)
    checks.slot_goes_on(source, target)
    checks.tables(source, settings, facts)
    remembering = archived.remembering(target, settings, facts)
    if archived.needs_changes(target, remembering):
        # Before Spark starts, which takes seconds.
        loader_progress.require_follower(target, settings, archived.FORGET)
    stack.enter_context(acquire_seed_lock(target, settings, facts))
    loader_progress.wait_until_followed(target, settings, facts)
    spark = cache(lambda: stack.enter_context(session.running(timeout=settings.timeout)))
    counted = count(spark, target, source, settings, facts, bool(remembering))
    # Again: a fact may have been built for the first time meanwhile.
    remembering = archived.remembering(target, settings, facts)
    gaps = archived.wait(target, settings, remembering, counted.snapshot_lsn)
    with spark_errors("seed"):
        late = dropped_partitions.write(spark, target, remembering, counted.snapshot_lsn, gaps)
    return replace(counted, timeline=slot.timeline, gaps=gaps, written={**counted.written, **late})


def from_archive(
    stack: contextlib.ExitStack,
    target: TargetSession,
    settings: Settings,
    slot: SlotPosition,
    facts: Sequence[Fact],
) -> store.Counted:
    """Compute the groups from an archive, and write them."""
    assert settings.archive is not None
    stack.enter_context(acquire_seed_lock(target, settings, facts))
    loader_progress.wait_until_followed(target, settings, facts)
    with spark_errors("seed"):
        archive = Archive.open(
            cache(lambda: stack.enter_context(session.running(timeout=settings.timeout))),
            settings.archive,
            target.slot,
        )
        at = archived_facts.position(archive, slot, settings)
        checks.not_older(target, facts, at)
        print_status(f"reading {archive.folder.uri} at {lsn.show(at)}")
        of_queries = [fact for fact in facts if isinstance(fact, QueryFact)]
        others = [fact for fact in facts if not isinstance(fact, QueryFact)]
        found = archived_facts.count(archive, others, at)
        groups = itertools.chain.from_iterable(each.groups() for each in found)
        written = arrow.written(store.writing(target)(groups)) if others else {}
        evaluated, own = archived_facts.write_queries(target, archive, of_queries, at)
        found, written = [*found, *evaluated], {**written, **own}
        store.keep(target, written)
    identities = archived_facts.identities(found)
    return store.Counted(at, identities, timeline=slot.timeline, written=written)


def count(
    spark: Callable[[], SparkSession],
    target: TargetSession,
    source: Connection,
    settings: Settings,
    facts: Sequence[Fact],
    wakes_loader: bool,
) -> store.Counted:
    """Count all facts' tables and write the groups; return where they were counted.

    With `wakes_loader` an idle loader comes to that position, so that deletes before it are
    applied.
    """
    of_queries = [fact for fact in facts if isinstance(fact, QueryFact)]
    others = [fact for fact in facts if not isinstance(fact, QueryFact)]
    with contextlib.ExitStack() as stack:
        exported = stack.enter_context(snapshot.export(settings, facts, source))
        # The snapshot's locks prevent that a name comes to mean another table.
        found = store.Counted(exported.position, read_current(source, facts))
        checks.not_older(target, facts, exported.position)
        if wakes_loader:
            loader_progress.emit_message(source)
        tables = ", ".join(map(str, source_tables(facts)))
        print_status(f"counting {tables} at {lsn.show(exported.position)}")
        parts = rows.parts_to_move(source, target, of_queries, exported)
        groups = queries.counted(settings, target, of_queries, exported, parts)
        with spark_errors("seed", exported.check):
            written = arrow.written(store.writing(target)(groups)) if of_queries else {}
        if others:
            written |= _counted_by_spark(spark(), target, settings, others, exported)
        with copies.made(target, parts) as empty:
            is_small = ranges.rows_of(exported.found) <= gathering.FEW_ROWS
            with spark_errors("seed", exported.check):
                start = None if is_small else spark
                filled = copies.fill(start, target, empty, exported, settings.partitions)
            # The source may clean up from here on.
            stack.close()
            own, rejected = copies.count(target, filled, target.incoming)
            written |= own
            if rejected:
                written |= arrow.written(store.writing(target)(iter(rejected)))
    store.keep(target, written)
    return replace(found, written=written)


def _counted_by_spark(
    spark: SparkSession,
    target: TargetSession,
    settings: Settings,
    facts: Sequence[Fact],
    exported: snapshot.ExportedSnapshot,
) -> dict[int, int]:
    """Write the groups of facts of the old language; return what the attempts have written."""
    tables = set(source_tables(facts))
    found = [(table, leaves) for table, leaves in exported.found if table in tables]
    exported = replace(exported, found=found)
    buckets = bucket_count(ranges.rows_of(found))
    with (
        counted_groups(spark, settings, facts, exported, buckets) as rows,
        spark_errors("seed", exported.check),
    ):
        stored = rows.mapped(store.writing(target), arrow.WRITTEN).collect()
        return {row["attempt"]: row["row_count"] for row in stored}


app = Job("The previous seed, if any, is intact.")


@app.command()
def run(
    source: Source = "",
    target: Target = "",
    slot: Slot = DEFAULT_SLOT,
    schema: Schema = DEFAULT_SCHEMA,
    fact: Facts = None,
    partitions: Partitions = 0,
    archive: Annotated[
        str | None,
        typer.Option(
            help="Compute the baselines from what spark/archive.py has stored in this folder; the"
            " source is not touched."
        ),
    ] = None,
    at: Annotated[
        str | None, typer.Option(help="With --archive: a WAL position; else the archive's end.")
    ] = None,
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
    """Count the facts' tables at one WAL position, while writers go on; store the baselines.

    For instance: spark-submit spark/seed.py --model ft_service_stats --partitions 16
    """
    summary = seed(
        Settings(
            target or source,
            slot,
            schema,
            source,
            tuple(fact or ()),
            partitions,
            timeout,
            forget_purged=forget_purged,
            archive=archive,
            at=parse_lsn(at, "--at"),
        )
    )
    print_lines([json.dumps(summary.as_json())] if as_json else summary.lines())
