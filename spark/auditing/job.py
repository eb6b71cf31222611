"""The audit from start to end: each fact at A, the tables at X, the changes between, comparison."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from operator import attrgetter
from shutil import get_terminal_size
from typing import Annotated

import pyarrow as pa
import typer
from common import arrow, changes, gathering, session, submitted
from common.command import (
    DEFAULT_HOLD,
    DEFAULT_TIMEOUT,
    AsJson,
    Facts,
    Job,
    Partitions,
    Settings,
    Timeout,
)
from common.connections import TargetSession, connect, connect_target, resolved
from common.errors import AuditDiffers, AuditIncomplete, SnapshotTooOld, spark_errors
from common.gathering import Gathered, buckets_of, gather
from common.progress import print_lines, print_status
from counting import checks, ranges, snapshot
from counting.counts import TableCounting, Uncounted, added
from counting.reading import bucket_count, counted_groups, counted_here
from counting.snapshot import ExportedSnapshot
from counting.values import ROW_COUNT
from deltas.gathered import Later, task_of
from pyspark.sql import SparkSession
from rich.console import Console
from rules.tallies import Rejected
from warehouse import fact as warehouse_fact
from warehouse import loader_progress
from warehouse.fact import Built, applied_lsn, is_gap, is_rebuild_due, open_facts
from warehouse.groups import ROWS

from auditing import downstream, evaluation, queries, roll_ups, stopped
from auditing.report import FactReport, Report, RollUpReport, UpperReport
from loader.source import table_identity
from loader.source.asking_tables import read_current
from loader.source.table_identity import TableIdentities
from waltally import locks, lsn
from waltally.database import Connection
from waltally.errors import (
    BuildFailed,
    LoaderError,
    NotSetUp,
    RowTooLarge,
    SourceBehind,
    TableReplaced,
    combine,
)
from waltally.facts import Fact, FactTable, QueryFact, source_tables
from waltally.options import Schema, Slot, Source, Target
from waltally.settings import DEFAULT_SCHEMA, DEFAULT_SLOT
from waltally.units import plural

Refused = dict[str, LoaderError]
"""By the name of a fact or a roll-up, why it cannot be compared."""


APPLY_SECONDS = 10.0
"""How long an audit waits for the apply that takes a new baseline."""


_OF_ONE = (NotSetUp, BuildFailed, TableReplaced, AuditIncomplete, RowTooLarge)
"""What keeps one fact from being compared, and no other."""

Start = Callable[[], SparkSession] | None
"""Gives the session; None where the audit needs none, as its tables have few rows."""


@dataclass(frozen=True)
class StoredFact:
    """A fact as it was read: its rows, and the deletes that it ignored."""

    built: Built
    stored: Gathered


@dataclass(frozen=True)
class Counts:
    """The tables' groups at a position, by table and part in so many buckets."""

    position: int
    gathered: Gathered
    countings: Sequence[TableCounting]
    buckets: int

    def of(
        self, fact: Fact, bucket: int | None
    ) -> tuple[list[pa.Table], list[tuple[FactTable, Uncounted]]]:
        """Return the groups of a fact, and its rows that are in none."""
        groups, others = [], []
        for counting in self.countings:
            for place, each in enumerate(counting.parts):
                if each.fact.name != fact.name:
                    continue
                tables = self.gathered.tables(counting.kind(place), bucket)
                if tables:
                    found, uncounted = added(tables)
                    groups.append(found.drop_columns([ROW_COUNT]))
                    others += [(each.part, one) for one in uncounted]
        return groups, others


def audit(settings: Settings, limit: int = 50) -> Report:
    """Compare the facts with the tables; change nothing. Raises LoaderError where it cannot.

    A fact that cannot be compared does not keep the others from it: the report says why. Of each
    fact the largest `limit` differences are listed.
    """
    begun = time.monotonic()
    work = settings.work
    with contextlib.ExitStack() as stack:
        target = stack.enter_context(contextlib.closing(connect_target(settings, work)))
        target.position()
        above = downstream.names(target, settings.facts)
        if settings.facts and not {*settings.facts} - {*above}:
            refused: Refused = {}
            upper = downstream.compare(target, above, refused, limit)
            position = target.position().position_lsn
            if not upper:
                raise combine(list(refused.values()))
            seconds = time.monotonic() - begun
            return Report(settings.slot, position, [], refused, seconds, upper=upper)
        settings = replace(
            settings, facts=tuple(name for name in settings.facts if name not in above)
        )
        source = stack.enter_context(contextlib.closing(connect(settings.source, "source", work)))
        facts, refused = comparable(target, source, settings)
        rows = ranges.row_estimate(source, source_tables(facts))
        rows += ranges.row_estimate(target, [fact.relation for fact in facts])

        @cache
        def session_of_all() -> SparkSession:
            return stack.enter_context(session.running(work, settings.timeout))

        start = None if rows <= gathering.FEW_ROWS else session_of_all
        buckets = 1 if start is None else bucket_count(rows)
        declared = [fact for fact in facts if not isinstance(fact, QueryFact)]
        of_queries = [fact for fact in facts if isinstance(fact, QueryFact)]
        found = read_facts(start, target, settings, declared, buckets) if declared else []
        with contextlib.ExitStack() as snapshots:
            if of_queries:
                warehouse = stack.enter_context(contextlib.closing(connect_target(settings, work)))
                exported, at = stopped.open_snapshots(
                    snapshots, settings, target, warehouse, source, facts, of_queries
                )
            else:
                exported = snapshots.enter_context(snapshot.export(settings, facts, source))
            # The snapshot's locks prevent that a name comes to mean another table.
            known = read_current(source, facts)
            found = unreplaced(found, exported.position, known, refused)
            own = [each.built.fact for each in found]
            counts = count(start, source, settings, own, exported, buckets) if own else None
            built = [each.built for each in found]
            reports = []
            for fact in of_queries:
                try:
                    queries.require_query(warehouse, fact)
                    read = warehouse_fact.read(warehouse, fact, at)
                    refuse(read, exported.position, known)
                    with spark_errors(work, exported.check):
                        reports.append(
                            compare_query(start, settings, target, source, read, exported, limit)
                        )
                    built.append(read)
                except _OF_ONE as error:
                    refused[fact.name] = error
        if counts is not None:
            loader_progress.wait_for_position(target, settings, counts.position)
            reports += compared(session_of_all, target, settings, found, counts, refused, limit)
        # After the read: changes that are pruned meanwhile are missing without an error.
        for each in found:
            refuse_gap(target, each.built)
        rolled = [] if settings.facts else roll_ups.compare(target, facts, reports, refused)
        upper = downstream.compare(target, above, refused, limit)
        differing = {each.name for each in reports if each.comparison.difference_count} | {*refused}
        note_audited(target, [each for each in built if each.fact.name not in differing])
    if not reports:
        raise combine(list(refused.values()))
    reports.sort(key=attrgetter("name"))
    seconds = time.monotonic() - begun
    return Report(settings.slot, exported.position, reports, refused, seconds, rolled, upper)


def comparable(
    target: TargetSession, source: Connection, settings: Settings
) -> tuple[list[Fact], Refused]:
    """Return the facts that can be compared, and by name why the others cannot.

    Raises what keeps all of them from it, before Spark starts.
    """
    checks.source(source, checks.staging(target, settings, stores=False))
    declared = queries.applied(target, target.registered_facts(settings.facts))
    facts, refused = readable(target, declared)
    if not facts:
        raise combine(list(refused.values()))
    checks.tables(source, settings, facts)
    loader_progress.require_follower(target, settings)
    return facts, refused


def readable(
    target: TargetSession, facts: Sequence[Fact]
) -> tuple[list[Fact], dict[str, LoaderError]]:
    """Return the facts that can be compared, and by name why the others cannot."""
    deadline = time.monotonic() + APPLY_SECONDS
    while is_rebuild_due(target, facts) and time.monotonic() < deadline:
        time.sleep(0.2)
    fit, refused = [], {}
    for fact in facts:
        try:
            # Before Spark starts, which takes seconds.
            applied_lsn(target, fact)
            fit.append(fact)
        except LoaderError as error:
            refused[fact.name] = error
    return fit, refused


def read_facts(
    start: Start, target: TargetSession, settings: Settings, facts: Sequence[Fact], buckets: int
) -> list[StoredFact]:
    """Read the facts' rows and the deletes that they ignored, as of one moment."""
    with open_facts(target, facts) as found, spark_errors(settings.work):
        for each in found:
            print_status(f"reading {each.fact.relation} at {lsn.show(each.position)}")
        return [StoredFact(each, each.stored(start, buckets)) for each in found]


def count(
    start: Start,
    source: Connection,
    settings: Settings,
    facts: Sequence[Fact],
    exported: ExportedSnapshot,
    buckets: int,
) -> Counts:
    """Count the facts' tables."""
    tables = source_tables(facts)
    found = [(table, leaves) for table, leaves in exported.found if table in tables]
    exported = replace(exported, found=found)
    loader_progress.emit_message(source)
    print_status(
        f"counting {', '.join(each.name for each in facts)} at {lsn.show(exported.position)}"
    )
    with spark_errors(settings.work, exported.check):
        countings: Sequence[TableCounting]
        if start is None:
            gathered, countings = counted_here(settings, facts, exported)
        else:
            with counted_groups(start(), settings, facts, exported, buckets) as groups:
                gathered, countings = Gathered(groups.partials), groups.countings
    return Counts(exported.position, gathered, countings, buckets)


def unreplaced(
    stored: Sequence[StoredFact], position: int, known: TableIdentities, refused: Refused
) -> list[StoredFact]:
    """Return the facts that were built from these tables; note in `refused` why another was not.

    Raises SourceBehind.
    """
    found = []
    for each in stored:
        try:
            refuse(each.built, position, known)
            found.append(each)
        except TableReplaced as error:
            refused[each.built.fact.name] = error
    return found


def refuse(built: Built, position: int, found: TableIdentities) -> None:
    """Raise SourceBehind or TableReplaced where the fact was built from other tables."""
    if position < built.position:
        raise SourceBehind(
            f"the source's WAL ends at {lsn.show(position)}, before the position"
            f" {lsn.show(built.position)} of {built.fact.relation}: it was restored or failed over"
            " with loss",
            "`loader setup --renew`, then `spark-submit spark/seed.py`, then `dbt build`",
        )
    finding = table_identity.replaced_finding(built.fact, built.counted, found)
    if finding is not None:
        raise finding


def refuse_gap(target: TargetSession, built: Built) -> None:
    """Raise SnapshotTooOld where the log has lost changes that the fact lacked when it was read."""
    if is_gap(target, built.fact, built.position):
        raise SnapshotTooOld(
            f"{built.fact.relation} was read at {lsn.show(built.position)}, and the change log has"
            " lost changes after that: it was pruned, or partitions of a table came or went",
            f"run the audit again; it says what helps if {built.fact.relation} waits then",
        )


def compared(
    start: Callable[[], SparkSession],
    target: TargetSession,
    settings: Settings,
    stored: Sequence[StoredFact],
    counts: Counts,
    refused: Refused,
    limit: int,
) -> list[FactReport]:
    """Bring the facts to the position of the counts and compare them.

    Why a fact cannot be brought there is noted in `refused`.
    """
    begin = min(each.built.position for each in stored)
    print_status(f"reading the changes from {lsn.show(begin)} on")
    # Only now the loader has seen the partitions that went before the tables were counted.
    emptied = target.emptied()
    found: dict[str, FactReport] = {}
    with spark_errors(settings.work):
        for position in dict.fromkeys(each.built.position for each in stored):
            own = [each for each in stored if each.built.position == position]
            later, change_count = read_log(start, target, own, position, counts)
            for each, changes_ in zip(own, later, strict=True):
                fact = each.built.fact
                print_status(f"comparing {fact.relation}")
                try:
                    found[fact.name] = compare(each, changes_, change_count, counts, emptied, limit)
                except AuditIncomplete as error:
                    refused[fact.name] = error
    names = [each.built.fact.name for each in stored]
    return [found[name] for name in names if name in found]


def read_log(
    start: Callable[[], SparkSession],
    target: TargetSession,
    stored: Sequence[StoredFact],
    begin: int,
    counts: Counts,
) -> tuple[list[Later], int]:
    """Read the changes of facts from their position up to the counts; return how many there are."""
    facts = [each.built.fact for each in stored]
    number = changes.count(target, begin, counts.position)
    truncates = changes.truncates(target, begin, counts.position)
    task = task_of(facts, target.slot, truncates, counts.buckets)
    texts = changes.queries(target, begin, counts.position, columns=changes.COUNTED)
    gathered = gather(
        None if number <= gathering.FEW_ROWS else start,
        arrow.queries(resolved(target), texts),
        task,
    )
    later = [Later(fact, target.slot, at, gathered, truncates) for at, fact in enumerate(facts)]
    return later, number


def compare(
    found: StoredFact,
    later: Later,
    change_count: int,
    counts: Counts,
    emptied: Mapping[str, int],
    limit: int,
) -> FactReport:
    """Bring one fact to the snapshot's position and compare it with the counts there.

    `emptied` has by table a position after its last partition that went.
    """
    built, fact = found.built, found.built.fact
    rejected = built.rejected.and_then(later.rejected)
    unseen = why_unseen(built, emptied)
    kept = [part.name for part in fact.tables if part.name not in later.truncated]
    comparing = evaluation.Comparing(fact, later.slot, unseen.keys(), limit)
    purged: list[pa.Table] = []
    others: list[tuple[FactTable, Uncounted]] = []
    for bucket in buckets_of(fact, counts.buckets):
        rows = found.stored.tables(ROWS, bucket)
        if fact.kind == "fact":
            rows = evaluation.without_truncated(rows, fact, later.truncated)
        elif change_count:
            rows = later.applied(rows)
        archived = [each for name in kept for each in found.stored.tables(name, bucket)]
        archived += later.archived(bucket)
        counted, uncounted = counts.of(fact, bucket)
        comparing.add([*rows, *later.deltas(bucket)], [*counted, *archived])
        purged += archived
        others += uncounted
    return FactReport(
        fact.name,
        str(fact.relation),
        built.position,
        change_count,
        comparing.result(),
        evaluation.archived_totals(purged, fact),
        unseen,
        rejected,
        *evaluation.uncounted(others),
        notes(built, rejected),
        built.is_whole,
    )


def compare_query(
    start: Start | None,
    settings: Settings,
    target: TargetSession,
    source: Connection,
    built: Built,
    exported: ExportedSnapshot,
    limit: int,
) -> FactReport:
    """Compare a model that is a query, and that is at the snapshot. Raises LoaderError."""
    fact = built.fact
    unseen = why_unseen(built, target.emptied())
    found, purged, left_out = queries.compare(
        start, settings, target, source, built, exported, bool(unseen), limit
    )
    return FactReport(
        fact.name,
        str(fact.relation),
        built.position,
        0,
        found,
        purged,
        unseen,
        built.rejected,
        left_out,
        [],
        notes(built, built.rejected),
        built.is_whole,
    )


def note_audited(target: TargetSession, built: Sequence[Built]) -> None:
    """Write down that these facts are equal, but for one that was built again meanwhile."""
    if not built:
        return
    with target.transaction():
        # A call of apply that has planned takes a row that others have changed for its own no more.
        locks.wait(target, "slot", target.slot)
        for each in built:
            at = None if each.baseline_lsn is None else lsn.show(each.baseline_lsn)
            target.ask(
                f"update {target.table('model_watermark')} as mark set audited_at = now()"
                " where slot_name = %s and model_name = %s and (select snapshot_lsn"
                f" from {target.table('baseline')} as own"
                " where own.slot_name = mark.slot_name and own.baseline_id = mark.baseline_id"
                " and own.fact_name = %s) is not distinct from %s",
                (target.slot, str(each.fact.relation), each.fact.name, at),
            )


def why_unseen(built: Built, emptied: Mapping[str, int]) -> dict[str, str]:
    """Return by measure why the fact may count more purged rows than were written down."""
    found: dict[str, str] = {}
    for part in built.emptied_parts(emptied):
        why = (
            f"a partition of {part.table} was dropped or truncated before"
            f" {lsn.show(emptied[str(part.table)])}, and nothing says what it held; after"
            f" `spark-submit spark/seed.py --model {built.fact.name}`, then `dbt build`, its rows"
            " are known"
        )
        found |= {each.name: why for each in built.fact.measures if part.name in each.of}
    return found


def notes(built: Built, rejected: Rejected) -> list[str]:
    """Return the known causes of differences, each as a sentence."""
    found = []
    if built.baseline_lsn is None:
        found.append(
            "the fact has no baseline, so it lacks the rows from before `loader setup`:"
            f" `spark-submit spark/seed.py --model {built.fact.name}`, then `dbt build`"
        )
    if rejected.count:
        found.append(
            f"{plural(rejected.count, 'change')} could not be counted, the first at"
            f" {lsn.show(rejected.first_lsn or 0)}; rejected_changes says why"
        )
    return found


_WIDTH = 200
"""Wide enough for ids, so that a report in a file is not cut."""

app = Job("Nothing was changed.")


@app.command()
def run(
    source: Source = "",
    target: Target = "",
    slot: Slot = DEFAULT_SLOT,
    schema: Schema = DEFAULT_SCHEMA,
    fact: Facts = None,
    partitions: Partitions = 0,
    timeout: Timeout = DEFAULT_TIMEOUT,
    limit: Annotated[
        int, typer.Option(min=0, help="Differences of each fact to list, the largest.")
    ] = 50,
    hold: Annotated[
        float,
        typer.Option(
            min=0.1,
            metavar="SECONDS",
            help="How long a try may keep others from applying: until the snapshot is made, and the"
            " models are there.",
        ),
    ] = DEFAULT_HOLD,
    as_json: AsJson = False,
) -> None:
    """Count the tables and compare the facts with them, while writers and loader go on.

    For instance: spark-submit spark/audit.py --model ft_service_stats --json --timeout 900
    """
    report = audit(
        Settings(
            target or source,
            slot,
            schema,
            source,
            tuple(fact or ()),
            partitions,
            timeout,
            work="audit",
            hold=hold,
        ),
        limit,
    )
    if as_json:
        print_lines([json.dumps(report.as_json())])
    else:
        show(report, get_terminal_size().columns if submitted.stdout_is_terminal() else _WIDTH)
    found: list[LoaderError] = [
        *map(finding, report.differing),
        *map(roll_up_finding, report.differing_roll_ups),
        *report.refused.values(),
    ]
    if found:
        raise combine(found)


def show(report: Report, width: int) -> None:
    """Print the report for a person, on a screen of this width."""
    printer = Console(width=width, markup=False, highlight=False)
    for line in report.lines(width):
        # A command in a sentence is pasted whole: the terminal breaks lines, not we.
        if isinstance(line, str):
            print_lines([line])
        else:
            printer.print(line)


def finding(report: FactReport) -> AuditDiffers:
    """Return the error for a fact that differs from its tables."""
    return AuditDiffers(
        f"{report.relation} differs from the tables in"
        f" {plural(report.comparison.difference_count, 'value')}",
        f"{report.remedy()} (docs/runbook.md, The audit differs)",
    )


def roll_up_finding(report: RollUpReport | UpperReport) -> AuditDiffers:
    """Return the error for a roll-up, or a model over models, that differs from its query."""
    what = "group" if isinstance(report, RollUpReport) else "value"
    return AuditDiffers(
        f"{report.relation} differs from its query in {plural(report.difference_count, what)}",
        f"{report.remedy()} (docs/runbook.md, The audit differs)",
    )
