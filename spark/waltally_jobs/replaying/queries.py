"""A model as of an archived moment: the target evaluates the archived changes."""

from __future__ import annotations

import pyarrow as pa

from waltally.models import Model
from waltally.tables import Table
from waltally_jobs.archiving import files
from waltally_jobs.archiving import models as archived
from waltally_jobs.archiving.archive import Archive
from waltally_jobs.archiving.folder import Folder
from waltally_jobs.archiving.manifests import Baseline
from waltally_jobs.common.connections import TargetSession
from waltally_jobs.common.errors import CountingFailed
from waltally_jobs.evaluation import evaluating
from waltally_jobs.replaying.result import ReplayedModel
from waltally_jobs.warehouse import groups

MAX_DIFFERENCES = 1000
"""The most differences of a model that are listed; all are counted."""
_PRESENT = "pg_temp.waltally_present"


def keep_present(target: TargetSession, model: Model) -> None:
    """Keep the rows of the model as the open transaction sees them, for `replayed` to compare."""
    target.ask(f"drop table if exists {_PRESENT}")
    target.ask(
        f"create temporary table {_PRESENT.partition('.')[2]} as table {model.relation.quoted}"
    )


def replayed(
    target: TargetSession,
    archive: Archive,
    position: int,
    baseline: Baseline,
    output: Folder | None,
    compares: bool,
) -> ReplayedModel:
    """Compute the model at the position; store it, and compare it with what `keep_present` kept.

    Raises ArchiveIncomplete.
    """
    model = baseline.model
    part = archive.contents.at(position)
    held = None if part is None else part.held.get(model.name)
    seed = f"`spark-submit spark/seed.py --model {model.name}`"
    again = f"give another position; those after {seed} are there once it is archived"
    archive.require_held(baseline, position, held, again)
    with evaluating.tables(target) as (moved, counted):
        archived.write(target, archive, baseline, position, moved, counted, "went")
        query = _rebuilt(model, counted)
        totals = groups.summed(model, "coalesce(trim_scale(sum(sums[{}]::numeric)), 0)::text")
        ((count, numbers),) = target.ask(f"select count(*), {totals} from ({query}) as rebuilt")
        if output is not None:
            _store(target, output, model, query)
        comparison = None
        if compares:
            # Not the groups of which no row is left.
            right = (
                f"(select * from {counted.quoted} where reason is null"
                f" and dimensions in (select dimensions from ({query}) as rebuilt))"
            )
            with target.transaction():
                comparison, _ = groups.compare(
                    target, model, _PRESENT, right, False, MAX_DIFFERENCES, purged=False
                )
    named = dict(zip((each.name for each in model.measures), numbers, strict=True))
    return ReplayedModel(model, position, baseline, count, named, comparison)


def _rebuilt(model: Model, counted: Table) -> str:
    """Return the query of the groups that are left, with the texts of their sums."""
    kept = model.declaration["kept"]
    totals = {each["name"]: f"sum(sums[{n}]::numeric)" for n, each in enumerate(kept, 1)}
    # A sum of no values is null, also where there were some.
    sums = ", ".join(
        f"case when {totals[each.get('counted_by', model.declaration['rows'])]} <> 0"
        f" then {totals[each['name']]} end::text"
        for each in kept
    )
    return (
        f"select dimensions, array[{sums}]::text[] as sums from {counted.quoted}"
        f" where reason is null group by dimensions"
        f" having {totals[model.declaration['rows']]} <> 0"
    )


def _store(target: TargetSession, output: Folder, model: Model, query: str) -> None:
    rows = target.ask(query)
    columns = {
        each.name: pa.array([key[place] for key, _ in rows], pa.string())
        for place, each in enumerate(model.dimensions)
    }
    try:
        for place, measure in enumerate(model.measures):
            # A numeric has more digits than Arrow's decimals.
            kind = pa.int64() if measure.type == "bigint" else pa.string()
            texts = pa.array([sums[place] for _, sums in rows], pa.string())
            columns[measure.name] = texts.cast(kind)
    except pa.ArrowInvalid as error:
        raise CountingFailed(
            f"a total of {model.name} does not fit its type: {error}",
            "replay it without --to, which prints the totals",
        ) from None
    files.write_table(output, model.name, pa.table(columns))
