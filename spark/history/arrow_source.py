"""Queries to a database, each run by a task of its own and read as Arrow batches."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark import Accumulator
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from history.reading import ReadFailed, Snapshot
from history.reading import batches as batches_as_of
from loader.login import told

_numbers = itertools.count(1)


def rows(
    spark: SparkSession,
    conninfo: str,
    queries: Sequence[str],
    ddl: str,
    snapshot: str | None = None,
    ended: Accumulator[int] | None = None,
) -> DataFrame:
    """Return the rows of all queries, whose columns must be as `ddl` names them for Spark.

    Each query that was read to its end adds one to `ended`.

    With the name of an exported snapshot every query reads as of it; else each as of its own start.
    Nothing is read yet; a task that fails then has ReadFailed in Spark's report.
    """
    if not queries:
        return spark.createDataFrame([], ddl)
    # A name that is registered anew may be looked up again by a frame that has the old one.
    name = f"queries{next(_numbers)}"
    spark.dataSource.register(_source(name, conninfo, tuple(queries), ddl, snapshot, ended))
    return spark.read.format(name).load()


def _source(
    source_name: str,
    conninfo: str,
    queries: tuple[str, ...],
    ddl: str,
    snapshot: str | None,
    ended: Accumulator[int] | None,
) -> type[DataSource]:
    # The connection travels in the closure: an option would show in the query's plan.
    class QueryReader(DataSourceReader):
        def partitions(self) -> Sequence[InputPartition]:
            return [InputPartition(number) for number in range(len(queries))]

        def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
            query = queries[partition.value]
            if snapshot is not None:
                yield from batches_as_of(Snapshot(conninfo, snapshot), query)
            else:
                yield from batches(conninfo, query)
            if ended is not None:
                ended.add(1)

    class Queries(DataSource):
        @classmethod
        def name(cls) -> str:
            return source_name

        def schema(self) -> str:
            return ddl

        def reader(self, schema: StructType) -> DataSourceReader:
            return QueryReader()

    return Queries


def batches(conninfo: str, query: str) -> Iterator[pa.RecordBatch]:
    """Yield the query's rows as of its start, in bounded memory. Raises ReadFailed."""
    from adbc_driver_postgresql import dbapi

    try:
        with dbapi.connect(conninfo) as connection, connection.cursor() as cursor:
            cursor.execute("set transaction read only")
            cursor.execute(query)
            yield from cursor.fetch_record_batch()
    except (dbapi.Error, pa.ArrowException, OSError) as error:
        # What fails after the first batch comes through Arrow, as an OSError.
        raise ReadFailed(told(error)) from None
