"""Rows that went with a dropped or truncated partition of a table whose deletes a fact ignores.

No change tells of them, so nobody wrote them down. They are what the fact has at X beyond the rows
that are stored there and the archived deletes before it.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as compute
from common import changes, sums
from common.arrow import Snapshot, queries, written
from common.connections import TargetSession, resolved
from common.errors import AuditIncomplete
from common.gathering import FEW_ROWS, gather
from counting.counts import as_groups, row_counts
from deltas.gathered import Later, task_of
from pyspark.sql import SparkSession
from waltally_jobs import evaluating, reading
from warehouse import groups
from warehouse.fact import Built, open_facts, read

from seeding import store
from seeding.archived import FORGET, WENT
from waltally import locks, lsn
from waltally.facts import Fact, FactTable, QueryFact
from waltally.tables import literal, quoted


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
        if isinstance(fact, QueryFact):
            rows_by_attempt |= _beyond_query(spark, target, fact, position, emptied)
            continue
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


_BEYOND = """
with known as (
    select dimensions, measures, 1 as sign from {of_model}
    union all
    select dimensions, sums::numeric[], -1
    from ({archived}) as purged where part = {part}
    union all
    select dimensions, sums::numeric[], -1
    from {incoming} where fact = {fact} and part = {part} and reason is null
    union all
    select dimensions, sums::numeric[], -1
    from {later} where fact = {fact} and part = {part} and reason is null
),

beyond as (
    select array[{keys}]::text[] as dimensions, array[{sums}]::text[] as sums, {rows} as row_count
    from known
    group by 1
),

written as (
    insert into {incoming} (fact, part, dimensions, row_count, sums, reason, attempt)
    -- A negative number is another fault.
    select {fact}, {part}, dimensions, row_count, sums, {went}, {attempt} from beyond
    where row_count > 0
    returning 1
)

select count(*) from written
"""


def _beyond_query(
    start: Callable[[], SparkSession],
    target: TargetSession,
    fact: QueryFact,
    position: int,
    emptied: Mapping[str, int],
) -> dict[int, int]:
    """Write the same of a model that is a query, whose changes since the position SQL evaluates."""
    attempts: dict[int, int] = {}
    kept = [each["name"] for each in fact.declaration["kept"]]
    sums = [f"coalesce(sum(sign * measures[{place}]), 0)" for place in range(1, len(kept) + 1)]
    with target.transaction():
        # Until the end nobody applies to it, so its position and its rows belong together.
        locks.wait(target, "model", str(fact.relation))
        built = read(target, fact, Snapshot(resolved(target), ""))
        parts = built.emptied_parts(emptied)
        for part in parts:
            _require_known(built)
            target.ask(_own_groups(fact, part, kept))
    if not parts:
        return attempts
    end = max(position, built.position)
    truncates = changes.truncates(target, position, end)
    if {part.table for part in fact.tables} & truncates.keys():
        raise unknown(fact, "a table was truncated while the seed was counting; run it again")
    log = changes.queries(target, position, end, columns=changes.COUNTED)
    reads = reading.changes_of(queries(resolved(target), log), [(0, fact)], truncates)
    is_small = changes.count(target, position, end) <= FEW_ROWS
    with evaluating.tables(target) as (moved, later):
        place = evaluating.place(target, moved, [fact])
        ((*written,),) = reading.move(None if is_small else start, reads, place)
        own = [attempt for attempt, _ in written]
        if evaluating.not_countable(target, moved, own) is not None:
            raise unknown(fact, "a change since the seed's snapshot cannot be counted")
        evaluating.count(target, fact, moved, own, later, WENT)
        archived = f"{groups.archived_query(fact, target)} and commit_lsn < '{lsn.show(position)}'"
        for part in parts:
            attempt = secrets.randbits(62)
            ((rows,),) = target.ask(
                _BEYOND.format(
                    of_model=_own(fact, part),
                    archived=archived,
                    part=literal(part.name),
                    fact=literal(fact.name),
                    incoming=target.incoming.quoted,
                    later=later.quoted,
                    keys=", ".join(
                        f"dimensions[{number}]::{key.type}::text"
                        for number, key in enumerate(fact.dimensions, 1)
                    ),
                    sums=", ".join(sums),
                    rows=sums[kept.index(fact.declaration["rows"])],
                    went=literal(WENT),
                    attempt=attempt,
                )
            )
            attempts[attempt] = rows
            target.ask(f"drop table {_own(fact, part)}")
    return attempts


def _own(fact: Fact, part: FactTable) -> str:
    return f"pg_temp.waltally_of_model_{fact.tables.index(part)}"


def _own_groups(fact: QueryFact, part: FactTable, kept: Sequence[str]) -> str:
    """Return SQL: keep in a table what the model has of one of its tables."""
    number = fact.tables.index(part) + 1
    others = range(1, len(fact.tables))
    own = [
        quoted(f"waltally_{number}_{name}")
        if number in others
        else " - ".join([quoted(name), *(quoted(f"waltally_{other}_{name}") for other in others)])
        for name in kept
    ]
    keys = ", ".join(f"{quoted(key.name)}::text" for key in fact.dimensions)
    return (
        f"create temporary table {_own(fact, part)} as select array[{keys}]::text[]"
        f" as dimensions, array[{', '.join(f'coalesce({each}, 0)' for each in own)}]::numeric[]"
        f" as measures from {fact.relation.quoted}"
    )


def _require_known(built: Built) -> None:
    if built.baseline_lsn is None or built.rejected.count:
        why = "it rejected changes" if built.rejected.count else "it has no baseline"
        raise unknown(built.fact, why)


def _beyond(
    start: Callable[[], SparkSession],
    target: TargetSession,
    built: Built,
    part: FactTable,
    position: int,
) -> pa.RecordBatch:
    """Return what the fact has at the position beyond what is counted and written down."""
    fact = built.fact
    _require_known(built)
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
