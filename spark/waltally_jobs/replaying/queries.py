"""A model that is a query as of an archived moment: the target evaluates the archived changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal

import pyarrow as pa

from waltally import lsn
from waltally.models import Model
from waltally_jobs.archiving import files
from waltally_jobs.archiving import models as archived
from waltally_jobs.archiving.archive import Archive
from waltally_jobs.archiving.folder import Folder
from waltally_jobs.archiving.manifests import Baseline
from waltally_jobs.common.connections import TargetSession
from waltally_jobs.common.errors import ArchiveIncomplete, CountingFailed
from waltally_jobs.common.numbers import print_number, total
from waltally_jobs.evaluation import evaluating
from waltally_jobs.replaying.result import Difference, ReplayedModel, arrow_type
from waltally_jobs.warehouse import groups

MAX_DIFFERENCES = 1000
"""The most differences of a model that are listed; all are counted."""
_WENT = "went"

Groups = Mapping[tuple[str | None, ...], Sequence[str | None]]
"""By the texts of its key, the texts of what is kept of a group; None is a sum of nothing."""


def present(target: TargetSession, model: Model) -> Groups:
    """Return the groups that the model's table has, as the open transaction sees it."""
    _say_times_as(target, model)
    return _read(target, groups.model_query(model))


def replayed(
    target: TargetSession,
    archive: Archive,
    position: int,
    model: Model,
    baseline: Baseline | None,
    output: Folder | None,
    now: Groups | None,
) -> ReplayedModel:
    """Compute the model at the position; store it, and compare it with what it is `now`.

    Raises ArchiveIncomplete.
    """
    if baseline is None:
        raise ArchiveIncomplete(
            f"the archive has no baseline of {model.name} at or before {lsn.show(position)}",
            "archive again after `spark-submit spark/seed.py`, or ask for a later position",
        )
    model = baseline.model
    with evaluating.tables(target) as (moved, counted):
        archived.write(target, archive, baseline, position, moved, counted, _WENT)
        names = [each.name for each in model.measures]
        added = ", ".join(
            f"sum(sums[{place}]::numeric)::text" for place, _ in enumerate(names, start=1)
        )
        place = model.counting_place
        assert place is not None  # of rows, which `write` has refused
        rebuilt = _read(
            target,
            f"select null::text as part, dimensions, array[{added}]::text[] as sums"
            f" from {counted.quoted} where reason is null group by dimensions"
            f" having sum(sums[{place + 1}]::numeric) <> 0",
        )
    if output is not None:
        _store(output, model, rebuilt)
    totals = {
        name: print_number(total(row[index] or "0" for row in rebuilt.values()))
        for index, name in enumerate(names)
    }
    wrong = [] if now is None else _differences(model, now, rebuilt)
    count = None if now is None else len(wrong)
    return ReplayedModel(
        model, position, baseline, len(rebuilt), totals, count, wrong[:MAX_DIFFERENCES]
    )


def _say_times_as(target: TargetSession, model: Model) -> None:
    """Print times as the texts of a baseline's groups have them."""
    target.ask("select set_config('timezone', %s, true)", (model.declaration["timezone"],))


def _read(target: TargetSession, query: str) -> Groups:
    return {tuple(dimensions): sums for _, dimensions, sums in target.ask(query)}


def _differences(model: Model, now: Groups, rebuilt: Groups) -> list[Difference]:
    """Return the groups that differ in a kept number, compared by value."""
    names = [each.name for each in model.measures]

    def numbers(side: Groups, key: tuple[str | None, ...]) -> list[str]:
        return [print_number(Decimal(text or 0)) for text in side.get(key, [None] * len(names))]

    found = []
    for key in sorted(now.keys() | rebuilt.keys(), key=str):
        sides = [numbers(side, key) for side in (now, rebuilt)]
        if sides[0] != sides[1]:
            dimensions = dict(zip((each.name for each in model.dimensions), key, strict=True))
            own, other = (dict(zip(names, side, strict=True)) for side in sides)
            found.append(Difference(dimensions, own, other))
    return found


def _store(output: Folder, model: Model, rebuilt: Groups) -> None:
    columns: dict[str, pa.Array] = {
        each.name: pa.array([key[place] for key in rebuilt], pa.string())
        for place, each in enumerate(model.dimensions)
    }
    try:
        for place, measure in enumerate(model.measures):
            texts = pa.array([row[place] for row in rebuilt.values()], pa.string())
            columns[measure.name] = texts.cast(arrow_type(measure.type))
    except pa.ArrowInvalid as error:
        raise CountingFailed(
            f"a total of {model.name} does not fit its type: {error}",
            "replay it without --to, which prints the totals",
        ) from None
    files.write_table(output, model.name, pa.table(columns))
