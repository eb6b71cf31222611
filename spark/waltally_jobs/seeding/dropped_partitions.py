"""Rows that went with a dropped or truncated partition of a table whose deletes a model ignores.

No change tells of them, so nobody wrote them down. They are what the model has at X beyond the rows
that are stored there and the archived deletes before it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from waltally import locks, lsn
from waltally.models import Model, ModelTable
from waltally.tables import literal, quoted
from waltally_jobs.common import changes
from waltally_jobs.common.arrow import FEW_ROWS, Start, queries
from waltally_jobs.common.connections import TargetSession, resolved
from waltally_jobs.common.errors import AuditIncomplete
from waltally_jobs.evaluation import evaluating
from waltally_jobs.moving import reading
from waltally_jobs.seeding.archived import FORGET, WENT
from waltally_jobs.warehouse import groups
from waltally_jobs.warehouse.model import Built, counted, emptied_parts, read


def write(
    spark: Start,
    target: TargetSession,
    models: Sequence[Model],
    position: int,
    gaps: Collection[str],
) -> dict[int, int]:
    """Add these rows to the incoming table, with WENT as the reason. Raises AuditIncomplete.

    Returns by attempt how many. The models must have applied everything before the position, except
    those with a gap.
    """
    rows_by_attempt: dict[int, int] = {}
    emptied = target.emptied()
    for model in models:
        # What went before the baseline was written down with it.
        if not emptied_parts(model, emptied, counted(target, model)[0]):
            continue
        if model.name in gaps:
            raise unknown(model, "the change log does not go on from the model")
        rows_by_attempt |= _beyond(spark, target, model, position, emptied)
    return rows_by_attempt


def unknown(model: Model, why: str) -> AuditIncomplete:
    """Return the error of a model of which nobody can tell how many rows went."""
    return AuditIncomplete(
        f"a partition that {model.relation} counted was dropped or truncated, and how many of its"
        f" rows the model still counts cannot be told: {why}",
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
    from {incoming} where model = {model} and part = {part} and reason is null
    union all
    select dimensions, sums::numeric[], -1
    from {later} where model = {model} and part = {part} and reason is null
),

beyond as (
    select array[{keys}]::text[] as dimensions, array[{sums}]::text[] as sums, {rows} as row_count
    from known
    group by 1
)

select {model}, {part}, dimensions, row_count, sums, {went} from beyond
-- A negative number is another fault.
where row_count > 0
"""


def _beyond(
    start: Start, target: TargetSession, model: Model, position: int, emptied: Mapping[str, int]
) -> dict[int, int]:
    """Write what the model has at the position beyond what is counted and written down."""
    attempts: dict[int, int] = {}
    kept = [each["name"] for each in model.declaration["kept"]]
    sums = [f"coalesce(sum(sign * measures[{place}]), 0)" for place in range(1, len(kept) + 1)]
    with target.transaction():
        # Until the end nobody applies to it, so its position and its rows belong together.
        locks.wait(target, "model", str(model.relation))
        built = read(target, model, "")
        parts = emptied_parts(model, emptied, built.baseline_lsn)
        for part in parts:
            _require_known(built)
            target.ask(_own_groups(model, part, kept))
    if not parts:
        return attempts
    end = max(position, built.position)
    truncates = changes.truncates(target, position, end)
    if {part.table for part in model.tables} & truncates.keys():
        raise unknown(model, "a table was truncated while the seed was counting; run it again")
    log = changes.queries(target, position, end, changes.COUNTED)
    reads = reading.changes_of(queries(resolved(target), log), [(0, model)], truncates)
    is_small = changes.count(target, position, end) <= FEW_ROWS
    with evaluating.tables(target) as (moved, later):
        place = evaluating.place(target, moved, [model])
        ((*written,),) = reading.move(None if is_small else start, reads, place)
        own = [attempt for attempt, _ in written]
        if evaluating.not_countable(target, moved, own) is not None:
            raise unknown(model, "a change since the seed's snapshot cannot be counted")
        evaluating.count(target, model, moved, own, later, WENT)
        archived = f"{groups.archived_query(model, target)} and commit_lsn < '{lsn.show(position)}'"
        for part in parts:
            query = _BEYOND.format(
                of_model=_own(model, part),
                archived=archived,
                part=literal(part.name),
                model=literal(model.name),
                incoming=target.incoming.quoted,
                later=later.quoted,
                keys=", ".join(
                    f"dimensions[{number}]::{key.type}::text"
                    for number, key in enumerate(model.dimensions, 1)
                ),
                sums=", ".join(sums),
                rows=sums[kept.index(model.declaration["rows"])],
                went=literal(WENT),
            )
            columns = "model, part, dimensions, row_count, sums, reason"
            attempts |= evaluating.insert(target, target.incoming, columns, query)
            target.ask(f"drop table {_own(model, part)}")
    return attempts


def _own(model: Model, part: ModelTable) -> str:
    return f"pg_temp.waltally_of_model_{model.tables.index(part)}"


def _own_groups(model: Model, part: ModelTable, kept: Sequence[str]) -> str:
    """Return SQL: keep in a table what the model has of one of its tables."""
    number = model.tables.index(part) + 1
    others = range(1, len(model.tables))
    own = [
        quoted(f"waltally_{number}_{name}")
        if number in others
        else " - ".join([quoted(name), *(quoted(f"waltally_{other}_{name}") for other in others)])
        for name in kept
    ]
    keys = ", ".join(f"{quoted(key.name)}::text" for key in model.dimensions)
    return (
        f"create temporary table {_own(model, part)} as select array[{keys}]::text[]"
        f" as dimensions, array[{', '.join(f'coalesce({each}, 0)' for each in own)}]::numeric[]"
        f" as measures from {model.relation.quoted}"
    )


def _require_known(built: Built) -> None:
    if built.baseline_lsn is None or built.rejected.count:
        why = "it rejected changes" if built.rejected.count else "it has no baseline"
        raise unknown(built.model, why)
