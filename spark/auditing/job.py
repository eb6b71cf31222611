"""The audit from end to end: the fact at A, the tables at X, the changes between, the verdict."""

from __future__ import annotations

import contextlib
import json
import time

from common import changes, session
from common.connections import asked, connect
from common.failures import explained
from common.progress import say
from counting import checks, snapshot
from counting.counts import judged
from counting.reading import identities, table_rows
from facts import arrival, fact
from facts.fact import Rejected
from facts.settings import FactSettings
from pyspark.sql import DataFrame

from auditing import purges, verdict
from auditing.report import Report
from loader.preflight import table_identity
from loader.preflight.table_identity import Known
from waltally import lsn
from waltally.errors import SourceBehind
from waltally.tables import Table


def audit(settings: FactSettings) -> Report:
    """Compare the fact with the tables; change nothing. Raises LoaderError where it cannot."""
    begun = time.monotonic()
    reading, work = settings.reading, settings.reading.work
    with asked(work), contextlib.ExitStack() as stack:
        target = stack.enter_context(
            contextlib.closing(connect(reading.target, "LOADER_TARGET_DSN", work))
        )
        source = stack.enter_context(
            contextlib.closing(connect(reading.source, "LOADER_SOURCE_DSN", work))
        )
        place = checks.staging(target, reading, stores=False)
        checks.source(source, place)
        checks.tables(source, reading.tables)
        with fact.hold(target, settings):
            pass  # refused now rather than after Spark's start
        arrival.refuse_absence(source, settings)
        spark = stack.enter_context(session.running(work))

        with fact.hold(target, settings) as stored, explained(work, lambda: None):
            say(f"reading {settings.fact} at {lsn.show(stored.position)}")
            rows, remembered = kept(stored.rows(spark)), kept(stored.remembered(spark))
        with snapshot.hold(reading, source, say) as held:
            # The locks that are held keep the names on these tables.
            known = json.loads(identities(source, reading))
            refuse(stored, held.position, known, reading.tables[1])
            arrival.mark(source)
            say(f"counting {', '.join(map(str, reading.tables))} at {lsn.show(held.position)}")
            with table_rows(spark, reading, held) as found, explained(work, held.check):
                counts = kept(judged(found))
        arrival.wait(target, source, settings, held.position, say)
        say(f"applying the changes from {lsn.show(stored.position)} on, and comparing")
        with explained(work, lambda: None):
            log = kept(
                changes.read(
                    spark, target, reading.schema, reading.slot, stored.position, held.position
                )
            )
            forward = verdict.brought_forward(rows, log, reading.tables)
            purged = purges.read(spark, target, settings, stored, remembered, held.position, say)
            found_out = verdict.judge(rows, forward, counts, purged, reading.tables, settings.limit)
            left_out = verdict.left_out(counts)
            rejected = stored.rejected.and_then(verdict.rejected(log, reading.tables))
            change_count = log.count()
        # Last, for what is pruned while it is read would be missing without a word.
        start = fact.slot(target, settings).start_lsn
        fact.refuse_gap(start, stored.position, settings.fact)
    return Report(
        reading.slot,
        str(settings.fact),
        purged.archived,
        purged.unseen,
        purged.count,
        stored.position,
        held.position,
        change_count,
        found_out,
        rejected,
        left_out,
        notes(stored, rejected),
        purges.not_seen(stored, start) is None,
        time.monotonic() - begun,
    )


def kept(rows: DataFrame) -> DataFrame:
    """Read the rows now and keep them: when a snapshot is gone, reading again is an error."""
    rows = rows.persist()
    rows.count()
    return rows


def refuse(stored: fact.Fact, position: int, found: Known, archive: Table) -> None:
    """Raise SourceBehind or TableReplaced where the fact cannot be of these tables."""
    if position < stored.position:
        raise SourceBehind(
            f"the source's WAL ends at {lsn.show(position)}, before the fact's position"
            f" {lsn.show(stored.position)}: it was restored or failed over with loss",
            "`loader setup --renew`, then `spark-submit spark/seed.py`, then `dbt build`",
        )
    finding = table_identity.replaced(stored.counted, found, archive)
    if finding is not None:
        raise finding


def notes(stored: fact.Fact, rejected: Rejected) -> list[str]:
    """Return what is known to make a fact differ, each as a sentence."""
    found = []
    if not stored.is_seeded:
        found.append(
            "the fact stands on no seed, so it lacks the rows from before `loader setup`:"
            " `spark-submit spark/seed.py`, then `dbt build`"
        )
    elif not stored.is_on_newest_seed:
        found.append("the fact does not stand on the newest seed yet: `dbt build`")
    if rejected.count:
        found.append(
            f"{rejected.count:,} changes could not be counted, the first at"
            f" {lsn.show(rejected.first_lsn or 0)}; rejected_changes says why"
        )
    return found
