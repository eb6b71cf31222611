"""The groups of the source tables as of the exported snapshot, as a DataFrame with progress."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from functools import reduce

from common import arrow, session, submitted
from common.arrow import Counters, Query
from common.command import Settings
from common.errors import FAILURES
from common.progress import Measure, Progress, print_status
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from pyspark.sql import DataFrame, SparkSession

from counting import columns, grouping, ranges, values
from counting.columns import Selection
from counting.counts import count_groups, each_row_once
from counting.ranges import Leaf
from counting.snapshot import ExportedSnapshot
from waltally.errors import LoaderError
from waltally.facts import Fact
from waltally.tables import Table

_READING = " ".join(
    f"-c {setting}"
    for setting in (
        *("enable_tidscan=on", "enable_hashagg=on", "work_mem=64MB"),
        *("max_parallel_workers_per_gather=0", "jit=off"),
    )
)


@contextlib.contextmanager
def counted_groups(
    spark: SparkSession, settings: Settings, facts: Sequence[Fact], exported: ExportedSnapshot
) -> Iterator[DataFrame]:
    """Yield the groups of all facts, to be used once within the block; progress is printed.

    The columns are counts.COLUMNS. Each table is read once. A running Spark job is cancelled when
    the snapshot is lost.
    """
    needed = {table: values.needed(facts, table) for table, _ in exported.found}
    counters = None if session.is_remote() else Counters(*submitted.accumulators(spark, 2))
    if counters is None:
        print_status("over Spark Connect there is no figure of progress")
    pages = 0
    groups = []
    for table, leaves in exported.found:
        # Nobody can change the columns' types: the snapshot comes with locks on the tables.
        selection, size = select(exported, settings, facts, table, leaves)
        parts = ranges.plan(leaves, size, selection.query)
        pages += sum(part.pages for part in parts)
        rows = arrow.mapped(
            spark,
            for_readers(exported.conninfo),
            [Query(part.query, part.pages, selection.row_count) for part in parts],
            selection.shaped,
            selection.schema,
            exported.name,
            counters,
        )
        counted = rows if selection.grouped else each_row_once(rows, needed[table])
        of_table = values.parts_of(facts, table)
        groups.append(count_groups(counted, needed[table], of_table, settings.slot))

    def cancel_if_lost() -> None:
        try:
            exported.check()
        except LoaderError:
            with contextlib.suppress(*FAILURES):
                spark.interruptAll()

    def measure() -> Measure:
        assert counters is not None
        return Measure(counters.size, pages, counters.rows)

    with Progress(measure if counters else None, cancel_if_lost):
        yield reduce(DataFrame.unionByName, groups)


def select(
    exported: ExportedSnapshot,
    settings: Settings,
    facts: Sequence[Fact],
    table: Table,
    leaves: Sequence[Leaf],
) -> tuple[Selection, int]:
    """Return how ranges of the table are read, row by row or as groups, and their pages.

    Current rows are all different: grouping them would only cost.
    """
    needed = values.needed(facts, table)
    parts = values.parts_of(facts, table)
    types = columns.types_of(
        exported.monitor, table, [name for each in needed for name in each.columns]
    )
    size = ranges.pages_per_range(exported.found, settings.partitions)
    by_row = columns.rows(types, needed), size
    if any(part.fact.kind != "fact" for part in parts):
        return by_row
    numbers = [each for each in needed if each.kind == "number"]
    measures = {each: values.measures_of(facts, table, each) for each in numbers}
    groups = grouping.groups(types, needed, measures)
    size = ranges.pages_per_range(
        exported.found, settings.partitions, ranges.PAGES_PER_GROUPED_RANGE
    )
    if not groups.keys:
        return groups, size
    largest = max(leaves, key=lambda leaf: leaf.pages)
    found = grouping.estimate(exported.monitor, largest, size, groups)
    return (groups, size) if found is not None and found.are_few else by_row


def for_readers(conninfo: str) -> str:
    """Return the connection string with what reading and grouping by ranges rely on.

    A range is read by its addresses, in one process, and its groups fit in memory.
    """
    users = conninfo_to_dict(conninfo).get("options") or ""
    return make_conninfo(conninfo, options=f"{users} {_READING}".strip())
