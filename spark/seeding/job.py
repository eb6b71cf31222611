"""The seed from start to end: checks, snapshot, counting, replacing the baselines."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce

from common import executors, registration, session
from common.connections import Connection, connect, database_errors
from common.errors import AuditIncomplete
from common.progress import Measure, Progress, print_status
from common.settings import Settings
from common.spark_errors import spark_errors
from counting import checks, ranges, snapshot, standby, timelines, values
from counting.counts import count_groups, each_row_once
from counting.reading import counted_groups, identities
from pyspark.sql import DataFrame, SparkSession
from warehouse import loader_progress

from seeding import following, known_facts, parquet, purged_rows, store
from seeding.incoming import write
from seeding.incoming_table import acquire_seed_lock, incoming_table
from seeding.known_facts import KnownFact
from seeding.purged import FORGET, NONE, UNKNOWN, Between, Purged
from seeding.summary import FactSummary, Summary, purged_notes
from waltally import lsn
from waltally.facts import Fact, source_tables


def seed(settings: Settings) -> Summary:
    """Count the tables and replace the facts' baselines. Raises LoaderError; the old ones stay."""
    begun = time.monotonic()
    with contextlib.ExitStack() as stack:
        stack.enter_context(database_errors("seed"))
        target = stack.enter_context(
            contextlib.closing(connect(settings.target, "LOADER_TARGET_DSN"))
        )
        slot = checks.staging(target, settings)
        facts = registration.registered_facts(
            target, settings.schema, settings.slot, settings.facts
        )
        source: Connection | None = None
        reader: Connection | None = None
        if settings.snapshot_lsn is not None:
            refuse_old(target, settings, facts, settings.snapshot_lsn)
        elif settings.standby is not None:
            reader = stack.enter_context(
                contextlib.closing(connect(settings.standby, standby.SETTING))
            )
            standby.check(reader, slot)
            checks.tables(reader, facts)
        else:
            reader = source = stack.enter_context(
                contextlib.closing(connect(settings.source, "LOADER_SOURCE_DSN"))
            )
            checks.source(source, slot)
            checks.tables(source, facts)
        # A standby's slot shows nowhere else.
        watched = None if slot.on_standby else source
        is_compared = can_compare(target, watched, settings, facts)
        stack.enter_context(acquire_seed_lock(target, settings, print_status))
        if reader is not None:
            following.wait_until_followed(target, watched, settings, facts, print_status)
        spark = stack.enter_context(session.running(timeout=settings.timeout))
        if reader is not None:
            executors.wait_for_one(spark, settings.timeout)
            size = ranges.row_estimate(reader, source_tables(facts))
            stack.enter_context(session.fitted(spark, size))
        # Before the snapshot, so that changes bring the facts forward to it.
        known = known_facts.read(target, settings, facts) if is_compared else {}
        counted = count(spark, target, reader, settings, facts, bool(known))
        purged = compare(spark, target, watched, settings, known, counted.snapshot_lsn)
        counted = replace(counted, timeline=slot.timeline)
        stored = store.replace(target, settings, facts, counted)
    summaries = []
    for fact in facts:
        of_fact = known.get(fact.name)
        is_unknown = of_fact == "other" or (not is_compared and known_facts.remembers(fact))
        found = purged.get(fact.name, UNKNOWN if is_unknown else NONE)
        notes = purged_notes(fact, of_fact if isinstance(of_fact, KnownFact) else None, found)
        summaries.append(FactSummary(fact, stored[fact.name], found, notes))
    return Summary(
        str(counted.baseline_id),
        settings.slot,
        lsn.show(counted.snapshot_lsn),
        time.monotonic() - begun,
        summaries,
    )


def refuse_old(
    target: Connection, settings: Settings, facts: Sequence[Fact], snapshot_lsn: int
) -> None:
    """Raise SnapshotTooOld where a baseline at the position would not count."""
    slot = checks.staging(target, settings)
    newest = store.baseline_lsn(target, settings, facts)
    checks.position(snapshot_lsn, slot.start_lsn, newest)
    checks.log_holds(snapshot_lsn, slot, facts)


def can_compare(
    target: Connection, source: Connection | None, settings: Settings, facts: Sequence[Fact]
) -> bool:
    """Return whether the facts can be compared with the stored rows.

    Raises AuditIncomplete where that needs a loader and nobody follows the slot; with
    `forget_purged` the answer is then no.
    """
    found = [
        known_facts.find(target, settings, fact) for fact in facts if known_facts.remembers(fact)
    ]
    needs_changes = any(
        isinstance(each, KnownFact) and each.is_comparable and each.position is not None
        for each in found
    )
    if source is None or not needs_changes:
        return True
    try:
        loader_progress.require_follower(source, settings, print_status, FORGET)
    except AuditIncomplete:
        if not settings.forget_purged:
            raise
        return False
    return True


def count(
    spark: SparkSession,
    target: Connection,
    reader: Connection | None,
    settings: Settings,
    facts: Sequence[Fact],
    wakes_loader: bool,
) -> store.Counted:
    """Count all facts' tables and write the groups; return where they were counted.

    `reader` is a session at the source or the standby. With `wakes_loader` an idle loader comes to
    that position, where purged rows are compared; a standby cannot wake it.
    """
    if reader is None:
        assert settings.parquet is not None and settings.snapshot_lsn is not None
        with spark_errors("seed", lambda: None):
            groups = [
                count_groups(
                    each_row_once(
                        parquet.table_rows(spark, settings.parquet, facts, table),
                        values.needed(facts, table),
                    ),
                    values.needed(facts, table),
                    values.parts_of(facts, table),
                    settings.slot,
                )
                for table in source_tables(facts)
            ]
            with Progress(lambda: tasks(spark), lambda: None):
                together = reduce(DataFrame.unionByName, groups)
                write(together, target, incoming_table(settings), "counted")
        return store.Counted(settings.snapshot_lsn)
    with exported_by(target, reader, settings, facts) as exported:
        # The snapshot's locks prevent that a name comes to mean another table.
        found = store.Counted(exported.position, identities(reader, facts))
        refuse_old(target, settings, facts, exported.position)
        if exported.is_standby:
            # Only now: a standby may come to another timeline until replay is paused.
            timelines.check(reader, checks.staging(target, settings), is_standby=True)
        if wakes_loader and not exported.is_standby:
            loader_progress.emit_message(reader)
        tables = ", ".join(map(str, source_tables(facts)))
        print_status(f"counting {tables} at {lsn.show(exported.position)}")
        with (
            counted_groups(spark, settings, facts, exported) as rows,
            spark_errors("seed", exported.check),
        ):
            write(rows, target, incoming_table(settings), "counted")
    return found


def exported_by(
    target: Connection, reader: Connection, settings: Settings, facts: Sequence[Fact]
) -> contextlib.AbstractContextManager[snapshot.ExportedSnapshot]:
    """Return the snapshot of the source, or of the standby, as a context."""
    if settings.standby is None:
        return snapshot.export(settings, facts, reader, print_status)
    slot = checks.staging(target, settings)
    least = checks.earliest(slot, facts, store.baseline_lsn(target, settings, facts))
    return standby.export(settings, facts, reader, least, print_status)


def compare(
    spark: SparkSession,
    target: Connection,
    source: Connection | None,
    settings: Settings,
    known: Mapping[str, object],
    snapshot_lsn: int,
) -> dict[str, Purged]:
    """Find the purged rows of the known facts; return by fact what becomes of them."""
    compared = [each for each in known.values() if isinstance(each, KnownFact)]
    try:
        with spark_errors("seed", lambda: None):
            between = purged_rows.bring_forward(
                compared, spark, target, source, settings, snapshot_lsn, print_status
            )
    except AuditIncomplete:
        if not settings.forget_purged:
            raise
        return {each.fact.name: UNKNOWN for each in compared}
    with spark_errors("seed", lambda: None):
        return {
            each.fact.name: purged_rows.find_purged(
                spark,
                target,
                settings,
                each,
                between.get(each.fact.name, Between()),
                snapshot_lsn,
                print_status,
            )
            for each in compared
        }


def tasks(spark: SparkSession) -> Measure:
    """Return how many tasks of the running stages are done."""
    tracker = spark.sparkContext.statusTracker()
    stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    known = [stage for stage in stages if stage is not None]
    return Measure(
        sum(stage.numCompletedTasks for stage in known), sum(stage.numTasks for stage in known)
    )
