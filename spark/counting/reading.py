"""The groups of the source tables as of the exported snapshot, as a DataFrame with progress."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from functools import reduce

import pyarrow as pa
from pyspark import Accumulator
from pyspark.sql import DataFrame, SparkSession
from waltally_jobs.common import arrow, session, submitted
from waltally_jobs.common.arrow import Read, Task, queries
from waltally_jobs.common.buckets import PARTIAL
from waltally_jobs.common.command import Settings
from waltally_jobs.common.errors import FAILURES
from waltally_jobs.common.gathering import Gathered, made_here
from waltally_jobs.common.progress import Measure, Progress, print_status
from waltally_jobs.evaluation import ranges
from waltally_jobs.evaluation.ranges import Leaf
from waltally_jobs.evaluation.snapshot import ExportedSnapshot, for_readers

from counting import columns, grouping, values
from counting.columns import Selection
from counting.counts import TableCounting
from waltally.errors import LoaderError
from waltally.facts import Fact
from waltally.tables import Table

_ROWS_PER_BUCKET = 500_000


class Groups:
    """What the tasks that read the tables have counted, to be read once."""

    def __init__(self, partials: DataFrame, countings: Sequence[TableCounting]) -> None:
        self.partials, self.countings = partials, countings

    def mapped(self, task: Task, ddl: str) -> DataFrame:
        """Return what `task` makes of the groups, which have the columns counts.COLUMNS."""
        countings = self.countings

        def add(key: tuple[pa.Scalar, ...], partials: pa.Table) -> pa.Table:
            number, place = map(int, key[0].as_py().split())
            payloads = partials["payload"].to_pylist()
            tables = [pa.ipc.open_stream(each).read_all() for each in payloads]
            groups = countings[number].groups(place, tables)
            return pa.Table.from_batches(task(iter([groups])))

        return self.partials.groupBy("kind", "bucket").applyInArrow(add, ddl)


def counted_here(
    settings: Settings, facts: Sequence[Fact], exported: ExportedSnapshot
) -> tuple[Gathered, list[TableCounting]]:
    """Return what this process has counted, without Spark: the tables have few rows."""
    conninfo = for_readers(exported.conninfo)
    countings: list[TableCounting] = []
    found: list[pa.RecordBatch] = []
    for number, (table, leaves) in enumerate(exported.found):
        counting, selection, size = select(exported, settings, facts, table, leaves, number, 1)
        texts = [each.query for each in ranges.plan(leaves, size, selection.query)]
        found += made_here(queries(conninfo, texts, exported.name), counting.partials)
        countings.append(counting)
    return Gathered(found), countings


@contextlib.contextmanager
def counted_groups(
    spark: SparkSession,
    settings: Settings,
    facts: Sequence[Fact],
    exported: ExportedSnapshot,
    buckets: int,
) -> Iterator[Groups]:
    """Yield the groups of all facts, to be used once within the block; progress is printed.

    Each table is read once. A running Spark job is cancelled when the snapshot is lost.
    """
    counters = None if session.is_remote() else submitted.accumulators(spark, 2)
    if counters is None:
        print_status("over Spark Connect there is no figure of progress")
    pages = sum(leaf.pages for _, leaves in exported.found for leaf in leaves)
    countings, partials = [], []
    for number, (table, leaves) in enumerate(exported.found):
        # Nobody can change the columns' types: the snapshot comes with locks on the tables.
        counting, selection, size = select(
            exported, settings, facts, table, leaves, number, buckets
        )
        parts = ranges.plan(leaves, size, selection.query)
        reads = queries(
            for_readers(exported.conninfo), [part.query for part in parts], exported.name
        )
        if counters is not None:
            reads = [
                _counted(read, part.pages, selection, counters)
                for read, part in zip(reads, parts, strict=True)
            ]
        countings.append(counting)
        partials.append(arrow.spread(spark, reads, counting.partials, PARTIAL))

    def cancel_if_lost() -> None:
        try:
            exported.check()
        except LoaderError:
            with contextlib.suppress(*FAILURES):
                spark.interruptAll()

    def measure() -> Measure:
        assert counters is not None
        read_rows, read_pages = counters
        return Measure(read_pages.value, pages, read_rows.value)

    with Progress(measure if counters else None, cancel_if_lost):
        yield Groups(reduce(DataFrame.unionByName, partials), countings)


def _counted(
    read: Read, pages: int, selection: Selection, counters: Sequence[Accumulator[int]]
) -> Read:
    """Return what reads a range, and adds to the rows and pages that tasks have read."""
    read_rows, read_pages = counters

    def count() -> Iterator[pa.RecordBatch]:
        for batch in read():
            read_rows.add(selection.row_count(batch))
            yield batch
        read_pages.add(pages)

    return count


def bucket_count(rows: int) -> int:
    """Return in how many buckets the groups of so many rows are added up, one at a time."""
    return max(2, 1 << (rows // _ROWS_PER_BUCKET).bit_length())


def select(
    exported: ExportedSnapshot,
    settings: Settings,
    facts: Sequence[Fact],
    table: Table,
    leaves: Sequence[Leaf],
    number: int = 0,
    buckets: int = 2,
) -> tuple[TableCounting, Selection, int]:
    """Return how the table is counted, how its ranges are read, and their pages.

    A range is read row by row or as groups.

    Current rows are all different: grouping them would only cost.
    """
    needed = values.needed(facts, table)
    parts = values.parts_of(facts, table)
    types = columns.types_of(
        exported.monitor, table, [name for each in needed for name in each.columns]
    )

    def counted(selection: Selection) -> TableCounting:
        infinite = frozenset(name for name, type_ in types.items() if type_.may_be_infinite)
        is_grouped = bool(selection.grouped)
        return TableCounting(number, needed, parts, settings.slot, is_grouped, infinite, buckets)

    size = ranges.pages_per_range(exported.found, settings.partitions)
    by_row = columns.rows(types, needed)
    if any(part.fact.kind != "fact" for part in parts):
        return counted(by_row), by_row, size
    numbers = [each for each in needed if each.kind == "number"]
    measures = {each: values.measures_of(facts, table, each) for each in numbers}
    groups = grouping.groups(types, needed, measures)
    grouped_size = ranges.pages_per_range(
        exported.found, settings.partitions, ranges.PAGES_PER_GROUPED_RANGE
    )
    if groups.keys:
        largest = max(leaves, key=lambda leaf: leaf.pages)
        found = grouping.estimate(exported.monitor, largest, grouped_size, groups)
        if found is None or not found.are_few:
            return counted(by_row), by_row, size
    return counted(groups), groups, grouped_size
