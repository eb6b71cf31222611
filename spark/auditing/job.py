"""The audit from start to end: each fact at A, the tables at X, the changes between, comparison."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from common import changes, executors, session
from common.connections import Connection, connect, database_errors
from common.errors import AuditIncomplete
from common.progress import print_status
from common.registration import registered_facts
from common.settings import Settings
from common.spark_errors import spark_errors
from counting import checks, ranges, snapshot
from counting.reading import counted_groups, identities
from deltas import rules
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from warehouse import fact as warehouse_fact
from warehouse import loader_progress
from warehouse.fact import Built
from warehouse.rejected import Rejected

from auditing import evaluation, roll_ups, stored_facts
from auditing.report import FactReport, Report
from auditing.stored_facts import StoredFact
from waltally import lsn
from waltally.errors import combine
from waltally.facts import source_tables
from waltally.units import plural


@dataclass(frozen=True)
class Log:
    """The changes up to the snapshot, cached; `change_counts` are those after each fact, by name.

    Only with `may_truncate` a TRUNCATE can be among them.
    """

    changes: DataFrame
    may_truncate: bool
    change_counts: Mapping[str, int]


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
        facts, refused = stored_facts.readable(target, settings, declared)
        if not facts:
            raise combine(list(refused.values()))
        checks.tables(source, facts)
        loader_progress.require_follower(target, settings, print_status)
        spark = stack.enter_context(session.running(work, settings.timeout))
        executors.wait_for_one(spark, settings.timeout)

        rows = ranges.row_estimate(source, source_tables(facts))
        rows += ranges.row_estimate(target, [fact.relation for fact in facts])
        stack.enter_context(session.fitted(spark, rows))
        found = stored_facts.read(spark, target, settings, facts)
        with snapshot.export(settings, facts, source, print_status) as exported:
            # The snapshot's locks prevent that a name comes to mean another table.
            known = json.loads(identities(source, facts))
            found = [
                each
                for each in found
                if stored_facts.is_of_these(each, exported.position, known, refused)
            ]
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
                counts = stored_facts.cached(groups)
        end = exported.position
        loader_progress.wait_for_position(target, settings, end, print_status)
        begin = min(each.built.position for each in found)
        print_status(f"reading the changes from {lsn.show(begin)} on")
        with spark_errors(work, lambda: None):
            log = read_log(spark, target, settings, begin, end, [each.built for each in found])
            left_out = evaluation.left_out(counts, facts)
            reports = []
            for each in found:
                name = each.built.fact.name
                own = counts.where(sql.col("fact") == name)
                print_status(f"comparing {each.built.fact.relation}")
                try:
                    report = compare(settings, each, own, log, limit)
                    reports.append(replace(report, left_out=left_out[name]))
                except AuditIncomplete as error:
                    refused[name] = error
        # After the read: changes that are pruned meanwhile are missing without an error.
        for each in found:
            fact, position = each.built.fact, each.built.position
            warehouse_fact.refuse_gap(target, settings, fact, position)
        rolled = [] if settings.facts else roll_ups.compare(target, settings, refused)
    return Report(settings.slot, end, reports, refused, time.monotonic() - begun, rolled)


def read_log(
    spark: SparkSession,
    target: Connection,
    settings: Settings,
    begin: int,
    end: int,
    facts: Sequence[Built],
) -> Log:
    """Read and cache the changes from `begin` up to `end`."""
    found = changes.read(spark, target, settings.schema, settings.slot, begin, end).persist()
    row = found.agg(
        sql.expr("count_if(action is null or action = 'T')").alias("truncate_count"),
        *(sql.count_if(sql.col("commit_lsn") >= each.position) for each in facts),
    ).first()
    assert row is not None
    truncate_count, *counts = row
    names = [each.fact.name for each in facts]
    return Log(found, truncate_count > 0, dict(zip(names, counts, strict=True)))


def compare(
    settings: Settings, found: StoredFact, counts: DataFrame, log: Log, limit: int
) -> FactReport:
    """Bring one fact to the snapshot's position and compare it with the counts there."""
    built, fact = found.built, found.built.fact
    forward, archived, rejected = found.rows, found.archived, built.rejected
    change_count = log.change_counts[fact.name]
    if change_count:
        mine = log.changes.where(sql.col("commit_lsn") >= built.position)
        classified = rules.classify(mine, fact, settings.slot).persist()
        rejected = rejected.and_then(evaluation.rejected(classified))
        truncates = rules.truncate_positions(mine, fact) if log.may_truncate else {}
        forward = evaluation.brought_forward(found.rows, classified, truncates, fact)
        archived = archived.where(~sql.col("part").isin(list(truncates))).unionByName(
            rules.archived_deletes(classified, truncates, fact)
        )
    unseen = why_unseen(built)
    return FactReport(
        fact.name,
        str(fact.relation),
        built.position,
        change_count,
        evaluation.compare_fact(forward, counts, archived, unseen.keys(), fact, limit),
        evaluation.archived_totals(archived, fact),
        unseen,
        rejected,
        [],
        notes(built, rejected),
        built.is_whole,
    )


def why_unseen(built: Built) -> dict[str, str]:
    """Return by measure why the fact may count more purged rows than were written down."""
    found: dict[str, str] = {}
    for part in built.emptied_parts:
        why = (
            f"a partition of {part.table} was dropped or truncated before"
            f" {lsn.show(built.emptied[str(part.table)])}, and nothing says what it held; after"
            f" `spark-submit spark/seed.py --fact {built.fact.name}`, then `dbt build`, its rows"
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
            f" `spark-submit spark/seed.py --fact {built.fact.name}`, then `dbt build`"
        )
    if rejected.count:
        found.append(
            f"{plural(rejected.count, 'change')} could not be counted, the first at"
            f" {lsn.show(rejected.first_lsn or 0)}; rejected_changes says why"
        )
    return found
