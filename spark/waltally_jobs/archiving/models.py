"""A model as of an archived position: its archived baseline and what the changes since then add.

The target evaluates the changes. Rows of an archive are changes like others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import pyarrow as pa
import pyarrow.compute as compute

from waltally import lsn
from waltally.models import Model
from waltally.tables import Table, literal
from waltally_jobs.archiving import files
from waltally_jobs.archiving.archive import Archive
from waltally_jobs.archiving.manifests import Baseline
from waltally_jobs.common import arrow
from waltally_jobs.common.connections import TargetSession, resolved
from waltally_jobs.common.errors import ArchiveIncomplete
from waltally_jobs.evaluation import evaluating
from waltally_jobs.moving import reading
from waltally_jobs.moving.reading import changes_of


def write(
    target: TargetSession,
    archive: Archive,
    baseline: Baseline,
    at: int,
    moved: Table,
    groups: Table,
    went: str,
) -> dict[int, int]:
    """Write the groups of a model at the position; return by attempt how many rows.

    The archived deletes are in its groups too, and stand there once more with the reason `went`.
    Raises ArchiveIncomplete where a change cannot be counted.
    """
    model = baseline.model
    if model.kind == "rows":
        raise ArchiveIncomplete(
            f"{model.name} keeps rows, and those are not computed from an archive",
            f"`spark-submit spark/seed.py --model {model.name}` counts it at the source; --model"
            " names the other models",
        )
    archive.require(baseline.snapshot_lsn, at)
    files.require_there(archive.folder, [*baseline.files, *baseline.archived_files])
    reads = archive.reads(baseline.snapshot_lsn, at)
    truncates = archive.truncates(baseline.snapshot_lsn, at)
    place = evaluating.place(target, moved, [model])
    ((*pairs,),) = reading.move(archive.session, changes_of(reads, [(0, model)], truncates), place)
    attempts = [attempt for attempt, _ in pairs]
    if (problem := evaluating.not_countable(target, moved, attempts)) is not None:
        raise ArchiveIncomplete(
            f"a change at {lsn.show(problem[0])} cannot be counted for {model.name}: {problem[1]}",
            f"give an --at up to {lsn.show(problem[0])}; or seed it from the source:"
            f" `spark-submit spark/seed.py --model {model.name}`",
        )
    kept = [part.name for part in model.tables if part.table not in truncates]
    return {
        **_stored(target, archive, model, baseline.files, kept, groups, None),
        **_stored(target, archive, model, baseline.archived_files, kept, groups, went),
        **evaluating.count(target, model, moved, attempts, groups, went),
    }


def _stored(
    target: TargetSession,
    archive: Archive,
    model: Model,
    names: Sequence[str],
    parts: Sequence[str],
    groups: Table,
    reason: str | None,
) -> dict[int, int]:
    """Write archived groups of these parts."""
    place, conninfo = model.counting_place, resolved(target)
    assert place is not None  # of rows, which `write` has refused

    def shaped(batch: pa.RecordBatch) -> pa.RecordBatch:
        own = batch.filter(compute.is_in(batch.column("part"), pa.array(parts, pa.string())))
        sums = own.column("sums")
        columns = {
            "model": pa.repeat(model.name, own.num_rows),
            "part": own.column("part").cast(pa.string()),
            "dimensions": own.column("dimensions").cast(pa.list_(pa.string())),
            "row_count": compute.list_element(sums, place).cast(pa.int64()),
            "sums": sums.cast(pa.list_(pa.string())),
            "reason": pa.repeat(pa.scalar(reason, pa.string()), own.num_rows),
        }
        return pa.RecordBatch.from_pydict(columns)

    def store(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return arrow.append(conninfo, groups, map(shaped, batches))

    reads = [partial(files.batches, archive.folder, name) for name in names]
    return arrow.written(arrow.made(archive.session, reads, store, arrow.WRITTEN))


def take_away(target: TargetSession, model: Model, groups: Table, went: str) -> dict[int, int]:
    """Take the archived deletes out of the groups; a seed adds them from where they are kept."""
    return evaluating.insert(
        target,
        groups,
        "model, part, dimensions, row_count, sums",
        "select model, part, dimensions, -row_count, array(select (-number::numeric)::text"
        " from unnest(sums) with ordinality as one (number, place) order by place)"
        f" from {groups.quoted} where model = {literal(model.name)} and reason = {literal(went)}",
    )
