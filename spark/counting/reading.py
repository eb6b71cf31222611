"""The groups of the source tables as of the exported snapshot, as a DataFrame with progress."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from functools import reduce

from common import arrow_source
from common.arrow_source import Counters, Query
from common.connections import Connection
from common.progress import Measure, Progress
from common.settings import Settings
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import DataFrame, SparkSession

from counting import columns, ranges, values
from counting.counts import count_groups
from counting.snapshot import ExportedSnapshot
from loader.preflight import table_identity
from waltally.errors import LoaderError
from waltally.facts import Fact


@contextlib.contextmanager
def counted_groups(
    spark: SparkSession, settings: Settings, facts: Sequence[Fact], exported: ExportedSnapshot
) -> Iterator[DataFrame]:
    """Yield the groups of all facts, to be used once within the block; progress is printed.

    The columns are counts.COLUMNS. Each table is read once. A running Spark job is cancelled when
    the snapshot is lost.
    """
    needed = {table: values.needed(facts, table) for table, _ in exported.found}
    # Nobody can change the columns' types: the snapshot comes with locks on the tables.
    selections = {
        table: columns.selection(exported.monitor, table, each) for table, each in needed.items()
    }
    listed = {table: selection.sql for table, selection in selections.items()}
    parts = ranges.plan(exported.found, settings.partitions, listed)
    counters = Counters(spark)
    pages = sum(part.pages for part in parts)
    groups = [
        count_groups(
            arrow_source.rows(
                spark,
                exported.conninfo,
                [
                    Query(part.query, part.pages, selection.shape)
                    for part in parts
                    if part.table == table
                ],
                selection.schema,
                exported.name,
                counters,
            ),
            needed[table],
            values.parts_of(facts, table),
            settings.slot,
        )
        for table, selection in selections.items()
    ]

    def cancel_if_lost() -> None:
        try:
            exported.check()
        except LoaderError:
            with contextlib.suppress(Py4JError, OSError):
                spark.sparkContext.cancelAllJobs()

    with Progress(lambda: Measure(counters.size, pages, counters.rows), cancel_if_lost):
        yield reduce(DataFrame.unionByName, groups)


def identities(source: Connection, facts: Sequence[Fact]) -> str:
    """Return as JSON which tables and columns the names mean now, for the loader to compare."""
    wanted = table_identity.wanted(facts)
    row = source.execute(table_identity.query(wanted).encode()).fetchone()
    assert row is not None
    return str(row[0])
