"""The audit from start to end: the fact at A, the tables at X, the changes between, comparison."""

from __future__ import annotations

import contextlib
import json
import time

from common import changes, session
from common.connections import connect, database_errors
from common.progress import print_status
from common.spark_errors import spark_errors
from counting import checks, snapshot
from counting.counts import count_groups
from counting.reading import identities, table_rows
from facts import fact, loader_progress
from facts.rejected import Rejected
from facts.settings import FactSettings
from pyspark.sql import DataFrame

from auditing import evaluation, purged_rows
from auditing.report import Report
from loader.preflight import table_identity
from loader.preflight.table_identity import TableIdentities
from waltally import lsn
from waltally.errors import SourceBehind
from waltally.tables import Table


def audit(settings: FactSettings) -> Report:
    """Compare the fact with the tables; change nothing. Raises LoaderError where it cannot."""
    begun = time.monotonic()
    reading, work = settings.reading, settings.reading.work
    with database_errors(work), contextlib.ExitStack() as stack:
        target = stack.enter_context(
            contextlib.closing(connect(reading.target, "LOADER_TARGET_DSN", work))
        )
        source = stack.enter_context(
            contextlib.closing(connect(reading.source, "LOADER_SOURCE_DSN", work))
        )
        slot = checks.staging(target, reading, stores=False)
        checks.source(source, slot)
        checks.tables(source, reading.tables)
        with fact.open_fact(target, settings):
            pass  # Refuse before Spark starts, which takes seconds.
        loader_progress.require_follower(source, settings)
        spark = stack.enter_context(session.running(work))

        with fact.open_fact(target, settings) as current, spark_errors(work, lambda: None):
            print_status(f"reading {settings.fact} at {lsn.show(current.position)}")
            rows, remembered = cached(current.rows(spark)), cached(current.remembered(spark))
        with snapshot.export(reading, source, print_status) as exported:
            # The snapshot's locks prevent that a name comes to mean another table.
            known = json.loads(identities(source, reading))
            refuse(current, exported.position, known, reading.tables[1])
            loader_progress.emit_message(source)
            print_status(
                f"counting {', '.join(map(str, reading.tables))} at {lsn.show(exported.position)}"
            )
            with table_rows(spark, reading, exported) as found, spark_errors(work, exported.check):
                counts = cached(count_groups(found))
        loader_progress.wait_for_position(target, source, settings, exported.position, print_status)
        print_status(f"applying the changes from {lsn.show(current.position)} on, and comparing")
        with spark_errors(work, lambda: None):
            log = cached(
                changes.read(
                    spark, target, reading.schema, reading.slot, current.position, exported.position
                )
            )
            forward = evaluation.brought_forward(rows, log, reading.tables)
            purged = purged_rows.read(
                spark, target, settings, current, remembered, exported.position, print_status
            )
            comparison = evaluation.compare_fact(
                rows, forward, counts, purged, reading.tables, settings.limit
            )
            left_out = evaluation.left_out(counts)
            rejected = current.rejected.and_then(evaluation.rejected(log, reading.tables))
            change_count = log.count()
        # After the read: changes that are pruned meanwhile are missing without an error.
        start = fact.slot(target, settings).start_lsn
        fact.refuse_gap(start, current.position, settings.fact)
    return Report(
        reading.slot,
        str(settings.fact),
        purged.archived,
        purged.unseen,
        purged.count,
        current.position,
        exported.position,
        change_count,
        comparison,
        rejected,
        left_out,
        notes(current, rejected),
        purged_rows.why_unseen(current, start) is None,
        time.monotonic() - begun,
    )


def cached(rows: DataFrame) -> DataFrame:
    """Read the rows now and cache them: after the snapshot has ended they cannot be read again."""
    rows = rows.persist()
    rows.count()
    return rows


def refuse(current: fact.Fact, position: int, found: TableIdentities, archive: Table) -> None:
    """Raise SourceBehind or TableReplaced where the fact was built from other tables."""
    if position < current.position:
        raise SourceBehind(
            f"the source's WAL ends at {lsn.show(position)}, before the fact's position"
            f" {lsn.show(current.position)}: it was restored or failed over with loss",
            "`loader setup --renew`, then `spark-submit spark/seed.py`, then `dbt build`",
        )
    finding = table_identity.replaced_finding(current.counted, found, archive)
    if finding is not None:
        raise finding


def notes(current: fact.Fact, rejected: Rejected) -> list[str]:
    """Return the known causes of differences, each as a sentence."""
    found = []
    if not current.is_seeded:
        found.append(
            "the fact has no baseline, so it lacks the rows from before `loader setup`:"
            " `spark-submit spark/seed.py`, then `dbt build`"
        )
    elif not current.is_on_newest_seed:
        found.append("the fact does not stand on the newest seed yet: `dbt build`")
    if rejected.count:
        found.append(
            f"{rejected.count:,} changes could not be counted, the first at"
            f" {lsn.show(rejected.first_lsn or 0)}; rejected_changes says why"
        )
    return found
