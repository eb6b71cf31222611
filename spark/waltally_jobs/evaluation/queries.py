"""Counts the groups of models: Spark's tasks evaluate their queries, range by range.

Where groups are few and the servers agree, the source evaluates; else what the query needs is
copied to the target, which does. What ranges have of one group is added up by the target.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial

import pyarrow as pa

from waltally.errors import RowTooLarge
from waltally.models import Model, ModelTable
from waltally.tables import Table
from waltally_jobs.common import arrow
from waltally_jobs.common.arrow import Read
from waltally_jobs.common.connections import TargetSession, resolved
from waltally_jobs.common.errors import spark_errors
from waltally_jobs.common.session import Sessions
from waltally_jobs.evaluation import places, ranges, tables
from waltally_jobs.evaluation.snapshot import ExportedSnapshot, for_readers
from waltally_jobs.evaluation.tasks import MAX_REJECTED, MOVED, Place, Range, evaluate, transfer


def count(
    work: Sessions,
    models: Sequence[Model],
    exported: ExportedSnapshot,
    groups: Table,
    release: Callable[[], None],
    is_frozen: bool = False,
) -> dict[int, int]:
    """Write the groups of the models, and the rows that their queries cannot take.

    Returns by attempt how many rows of `groups` count; with `is_frozen` each has a table of its
    own. `release` is called when the source has been read. Raises BeginAgain, LoaderError.
    """
    spark, target, settings = work.spark, work.target, work.settings
    moved = places.parts_to_move(work, models, exported)
    login = resolved(target)
    place = Place(exported.readers, exported.name, settings.timeout)
    with tables.copies(target, moved) as empty:
        pieces = list(_ranges(work, models, exported, moved))
        reads = _evaluations(partial(evaluate, place, login, groups, is_frozen), pieces)
        size = ranges.pages_per_range(exported.found, settings.partitions)
        reads += [
            partial(transfer, place, *read, login, copy.table, len(copy.names))
            for copy in empty
            for read in ranges.plan(dict(exported.found)[copy.part.table], size, copy.columns)
        ]
        names = ", ".join(str(table) for table, _ in exported.found)
        with spark_errors(settings.work, exported.check):
            found = arrow.collected(spark, reads, MOVED, f"reading {names}", exported.rows)
        exported.verify(models)
        # The source may clean up from here on.
        release()
        copied = [each for each in found if each["times"]]
        if copied:
            place = Place(for_readers(login))
            pieces = [each for copy in empty for each in tables.ranges_of(target, copy, copied)]
            reads = _evaluations(partial(evaluate, place, login, groups, is_frozen), pieces)
            with spark_errors(settings.work):
                found += arrow.collected(spark, reads, MOVED, "evaluating in the target")
    return {each["attempt"]: each["row_count"] for each in found if not each["times"]}


def _ranges(
    work: Sessions,
    models: Sequence[Model],
    exported: ExportedSnapshot,
    moved: Sequence[tuple[Model, ModelTable]],
) -> Iterator[tuple[Range, int]]:
    """Yield the ranges that the source evaluates, each with its pages."""
    leaves = dict(exported.found)
    most = ranges.PAGES_PER_GROUPED_RANGE
    size = ranges.pages_per_range(exported.found, work.settings.partitions, most)
    for model, part in ((each, part) for each in models for part in each.tables):
        if (model, part) in moved:
            continue
        values = ranges.values(work.source, part.table, model.needed_columns(part))
        for leaf in leaves[part.table]:
            rows = ranges.whole(work.target, model, part, ranges.relation(leaf, values), leaf.then)
            for condition in ranges.cut(leaf, size):
                yield replace(rows, condition=condition), min(size, leaf.pages)


def _evaluations(
    evaluation: Callable[[Sequence[Range]], Iterator[pa.RecordBatch]],
    work: Sequence[tuple[Range, int]],
) -> list[Read]:
    """Return what evaluates the ranges; small ones together."""
    bundles = ranges.together(work, ranges.PAGES_PER_GROUPED_RANGE)
    return [partial(evaluation, bundle) for bundle in bundles]


Rejections = dict[tuple[str, str], dict[str, int]]
"""By model and part how many rows its query cannot take, by PostgreSQL's reason."""


def rejected(target: TargetSession, groups: Table, attempts: Collection[int]) -> Rejections:
    """Return the rows that these attempts could not count."""
    rows = target.ask(
        f"select model, part, reason, sum(row_count)::bigint from {groups.quoted}"
        " where reason is not null and attempt = any(%s) group by 1, 2, 3 order by 1, 2, 3",
        ([*attempts],),
    )
    found: Rejections = {}
    for model, part, reason, count in rows:
        found.setdefault((model, part), {})[reason] = count
    return found


def refuse_many(found: Rejections, models: Sequence[Model]) -> None:
    """Raise RowTooLarge where the query of one of the models cannot take too many rows."""
    for model, part in ((each, part) for each in models for part in each.tables):
        reasons = found.get((model.name, part.name), {})
        if sum(reasons.values()) > MAX_REJECTED:
            raise RowTooLarge(
                f"The query of {model.name} cannot take more than {MAX_REJECTED:,} rows of"
                f" {part.table}; one of them: {[*reasons][-1]}",
                "write the query so that it takes them, then `loader setup`, `dbt build`, and seed",
            )
