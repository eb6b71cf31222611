"""Rows that went with a dropped or truncated partition of a table whose deletes a fact ignores.

No change tells of them, so nobody wrote them down. They are what the fact has at X beyond the rows
that are stored there and the archived deletes before it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import pyarrow as pa
import pyarrow.compute as compute
from common import changes, sums
from common.arrow import queries, written
from common.connections import TargetSession, resolved
from common.errors import AuditIncomplete
from common.gathering import gather
from counting.counts import as_groups, row_counts
from deltas.gathered import Later, task_of
from pyspark.sql import SparkSession
from warehouse import groups
from warehouse.fact import Built, open_facts

from seeding import store
from seeding.archived import FORGET, WENT
from waltally import lsn
from waltally.facts import Fact, FactTable


def write(
    spark: Callable[[], SparkSession],
    target: TargetSession,
    facts: Sequence[Fact],
    position: int,
    gaps: Collection[str],
) -> dict[int, int]:
    """Add these rows to the incoming table, with WENT as the reason. Raises AuditIncomplete.

    Returns by attempt how many. The facts must have applied everything before the position, except
    those with a gap.
    """
    rows_by_attempt: dict[int, int] = {}
    emptied = target.emptied()
    for fact in facts:
        if not any(str(part.table) in emptied for part in fact.tables if part.ignores_deletes):
            continue
        if fact.name in gaps:
            raise unknown(fact, "the change log does not go on from the fact")
        with open_facts(target, [fact]) as [built]:
            for part in built.emptied_parts(emptied):
                rows = _beyond(spark, target, built, part, position)
                rows_by_attempt |= written(store.writing(target)(iter([rows])))
    return rows_by_attempt


def unknown(fact: Fact, why: str) -> AuditIncomplete:
    """Return the error of a fact of which nobody can tell how many rows went."""
    return AuditIncomplete(
        f"a partition that {fact.relation} counted was dropped or truncated, and how many of its"
        f" rows the fact still counts cannot be told: {why}",
        FORGET,
    )


def _beyond(
    start: Callable[[], SparkSession],
    target: TargetSession,
    built: Built,
    part: FactTable,
    position: int,
) -> pa.RecordBatch:
    """Return what the fact has at the position beyond what is counted and written down."""
    fact = built.fact
    if built.baseline_lsn is None or built.rejected.count:
        why = "it rejected changes" if built.rejected.count else "it has no baseline"
        raise unknown(fact, why)
    end = max(position, built.position)
    truncates = changes.truncates(target, position, end)
    log = changes.queries(target, position, end, columns=changes.COUNTED)
    task = task_of([fact], target.slot, truncates, 1)
    later = Later(
        fact, target.slot, 0, gather(start, queries(resolved(target), log), task), truncates
    )
    together = {name for each in fact.measures if part.name in each.of for name in each.of}
    if together & later.truncated:
        raise unknown(fact, "a table was truncated while the seed was counting; run it again")
    known = [
        f"{groups.archived_query(fact, target)} and commit_lsn < '{lsn.show(position)}'",
        groups.counted_query(fact, target.incoming),
    ]
    snapshot = built.snapshot
    reads = queries(snapshot.conninfo, [*built.queries, *known], snapshot.name)
    stored = gather(start, reads, groups.tables_of(fact, 1))
    less = [table for each in fact.tables for table in stored.tables(each.name)]
    found = sums.added_for(
        fact,
        [*stored.tables(groups.ROWS), *sums.negated([*less, *later.deltas(None)])],
    )
    nothing = pa.repeat(pa.scalar(0, pa.int64()), found.num_rows)
    for name, measure in zip(sums.sum_names(len(fact.measures)), fact.measures, strict=True):
        if part.name not in measure.of:
            found = found.set_column(found.schema.get_field_index(name), name, nothing)
    if fact.counting_place(part) is None:
        found = sums.without_zeros(found)
    else:
        # A negative number is another fault.
        found = found.filter(compute.greater(row_counts(found, fact, part), 0))
    return as_groups(fact, part, target.slot, found, WENT)
