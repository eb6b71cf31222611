"""The audit from start to end: each fact at A, the tables at X, the changes between, comparison."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass

from common import changes, session
from common.connections import Connection, connect, database_errors
from common.errors import AuditIncomplete
from common.progress import print_status
from common.registration import registered_facts
from common.settings import Settings
from common.spark_errors import spark_errors
from counting import checks, snapshot
from counting.reading import counted_groups, identities
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from warehouse import fact as warehouse_fact
from warehouse import loader_progress
from warehouse.fact import Built
from warehouse.rejected import Rejected

from auditing import comparing, evaluation, purged_rows
from auditing.report import FactReport, Report
from loader.preflight import table_identity
from loader.preflight.table_identity import TableIdentities
from waltally import lsn
from waltally.errors import LoaderError, SourceBehind, TableReplaced, combine
from waltally.facts import Fact


@dataclass(frozen=True)
class Read:
    """A fact as it was read: cached, as its snapshot has ended."""

    built: Built
    rows: DataFrame
    remembered: DataFrame


def audit(settings: Settings, limit: int = 50) -> Report:
    """Compare the facts with the tables; change nothing. Raises LoaderError where it cannot.

    A fact that cannot be compared does not keep the others from it: the report says why. Of each
    fact the largest `limit` differences are listed.
    """
    begun = time.monotonic()
    work = settings.work
    with database_errors(work), contextlib.ExitStack() as stack:
        target = stack.enter_context(
            contextlib.closing(connect(settings.target, "LOADER_TARGET_DSN", work))
        )
        source = stack.enter_context(
            contextlib.closing(connect(settings.source, "LOADER_SOURCE_DSN", work))
        )
        slot = checks.staging(target, settings, stores=False)
        checks.source(source, slot)
        declared = registered_facts(target, settings.schema, settings.slot, settings.facts)
        facts, refused = readable(target, settings, declared)
        if not facts:
            raise combine(list(refused.values()))
        checks.tables(source, facts)
        loader_progress.require_follower(source, settings)
        spark = stack.enter_context(session.running(work))

        found = [read(spark, target, settings, fact) for fact in facts]
        with snapshot.export(settings, facts, source, print_status) as exported:
            # The snapshot's locks prevent that a name comes to mean another table.
            known = json.loads(identities(source, facts))
            found = [each for each in found if is_of_these(each, exported.position, known, refused)]
            if not found:
                raise combine(list(refused.values()))
            facts = [each.built.fact for each in found]
            loader_progress.emit_message(source)
            print_status(
                f"counting {', '.join(each.name for each in facts)} at"
                f" {lsn.show(exported.position)}"
            )
            with (
                counted_groups(spark, settings, facts, exported) as groups,
                spark_errors(work, exported.check),
            ):
                counts = cached(groups)
        end = exported.position
        loader_progress.wait_for_position(target, source, settings, end, print_status)
        begin = min(each.built.position for each in found)
        print_status(f"applying the changes from {lsn.show(begin)} on, and comparing")
        with spark_errors(work, lambda: None):
            log = cached(changes.read(spark, target, settings.schema, settings.slot, begin, end))
            reports = []
            for each in found:
                try:
                    reports.append(compare(spark, target, settings, each, counts, log, end, limit))
                except AuditIncomplete as error:
                    refused[each.built.fact.name] = error
        # After the read: changes that are pruned meanwhile are missing without an error.
        start = warehouse_fact.slot(target, settings).start_lsn
        for each in found:
            warehouse_fact.refuse_gap(start, each.built.position, each.built.fact.relation)
    return Report(settings.slot, end, reports, refused, time.monotonic() - begun)


def readable(
    target: Connection, settings: Settings, facts: Sequence[Fact]
) -> tuple[list[Fact], dict[str, LoaderError]]:
    """Return the facts that can be compared, and by name why the others cannot."""
    fit, refused = [], {}
    for fact in facts:
        try:
            with warehouse_fact.open_fact(target, settings, fact):
                fit.append(fact)  # Before Spark starts, which takes seconds.
        except LoaderError as error:
            refused[fact.name] = error
    return fit, refused


def read(spark: SparkSession, target: Connection, settings: Settings, fact: Fact) -> Read:
    """Read the fact's rows and the purged rows that its baseline remembers."""
    with (
        warehouse_fact.open_fact(target, settings, fact) as built,
        spark_errors(settings.work, lambda: None),
    ):
        print_status(f"reading {fact.relation} at {lsn.show(built.position)}")
        return Read(built, cached(built.rows(spark)), cached(built.remembered(spark)))


def compare(
    spark: SparkSession,
    target: Connection,
    settings: Settings,
    found: Read,
    counts: DataFrame,
    log: DataFrame,
    end: int,
    limit: int,
) -> FactReport:
    """Bring one fact to the snapshot's position and compare it with the counts there."""
    built, fact = found.built, found.built.fact
    mine = log.where(sql.col("commit_lsn") >= built.position)
    own = counts.where(sql.col("fact") == fact.name)
    forward = comparing.brought_forward(found.rows, mine, fact, settings.slot)
    purged = purged_rows.read(spark, target, settings, built, found.remembered, end, print_status)
    rejected = built.rejected.and_then(evaluation.rejected(mine, fact, settings.slot))
    why = purged_rows.why_unseen(built, warehouse_fact.slot(target, settings).start_lsn)
    unseen = {
        measure.name: purged.unseen[part]
        for measure in fact.measures
        for part in measure.of
        if part in purged.unseen
    }
    return FactReport(
        fact.name,
        str(fact.relation),
        built.position,
        mine.count(),
        evaluation.compare_fact(forward, own, purged, fact, limit),
        purged.totals,
        unseen,
        rejected,
        evaluation.left_out(own, fact),
        notes(built, rejected),
        why is None,
    )


def cached(rows: DataFrame) -> DataFrame:
    """Read the rows now and cache them: after the snapshot has ended they cannot be read again."""
    rows = rows.persist()
    rows.count()
    return rows


def is_of_these(
    found: Read, position: int, known: TableIdentities, refused: dict[str, LoaderError]
) -> bool:
    """Return whether the fact was built from these tables; else note why not in `refused`."""
    try:
        refuse(found.built, position, known)
    except TableReplaced as error:
        refused[found.built.fact.name] = error
        return False
    return True


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


def notes(built: Built, rejected: Rejected) -> list[str]:
    """Return the known causes of differences, each as a sentence."""
    found = []
    if built.baseline_id is None:
        found.append(
            "the fact has no baseline, so it lacks the rows from before `loader setup`:"
            f" `spark-submit spark/seed.py --fact {built.fact.name}`, then `dbt build`"
        )
    elif not built.is_on_newest_baseline:
        found.append("the fact does not stand on the newest baseline yet: `dbt build`")
    if rejected.count:
        found.append(
            f"{rejected.count:,} changes could not be counted, the first at"
            f" {lsn.show(rejected.first_lsn or 0)}; rejected_changes says why"
        )
    return found
