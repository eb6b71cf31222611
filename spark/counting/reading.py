"""The rows of the source tables as of the exported snapshot, as a DataFrame with progress."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import partial

from common import arrow_source
from common.arrow_source import Counters, Query
from common.connections import Connection
from common.progress import Measure, Progress
from common.settings import Settings
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import DataFrame, SparkSession

from counting import columns, ranges
from counting.snapshot import ExportedSnapshot
from loader.preflight import table_identity
from waltally.errors import LoaderError


@contextlib.contextmanager
def table_rows(
    spark: SparkSession, settings: Settings, exported: ExportedSnapshot
) -> Iterator[DataFrame]:
    """Yield the rows of all tables, to be read once within the block; progress is printed.

    The columns are source_table and the dimensions. A running Spark job is cancelled when the
    snapshot is lost.
    """
    # Nobody can change the columns' types: the snapshot comes with locks on the tables.
    as_bytes = columns.uuids(exported.monitor, settings.tables)
    selections = columns.selections(exported.monitor, settings.tables, as_bytes)
    queries = [
        Query(
            part.query,
            part.pages,
            partial(columns.labelled, source_table=part.source_table, as_bytes=as_bytes),
        )
        for part in ranges.plan(exported.found, settings.partitions, selections)
    ]
    counters = Counters(spark)
    pages = sum(query.size for query in queries)

    def cancel_if_lost() -> None:
        try:
            exported.check()
        except LoaderError:
            with contextlib.suppress(Py4JError, OSError):
                spark.sparkContext.cancelAllJobs()

    with Progress(lambda: Measure(counters.size, pages, counters.rows), cancel_if_lost):
        yield arrow_source.rows(
            spark, exported.conninfo, queries, columns.schema(as_bytes), exported.name, counters
        )


def identities(source: Connection, settings: Settings) -> str:
    """Return as JSON which tables and columns the names mean now, for the loader to compare."""
    row = source.execute(table_identity.query(settings.tables).encode()).fetchone()
    assert row is not None
    return str(row[0])
