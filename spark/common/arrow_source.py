"""Queries to a database, each run by a task of its own and read as Arrow batches."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark import Accumulator
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from waltally.login import one_line

LOCK_TIMEOUT = "5s"

_numbers = itertools.count(1)


class ReadFailed(Exception):
    """The marker by which the driver finds the sentence in Spark's report of a failed task."""


@dataclass(frozen=True)
class Snapshot:
    """Where and as of when to read; `conninfo` may hold a password."""

    conninfo: str
    name: str

    def __repr__(self) -> str:
        return f"Snapshot({self.name})"


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
            yield from batches(conninfo, query, snapshot)
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


def batches(conninfo: str, query: str, snapshot: str | None = None) -> Iterator[pa.RecordBatch]:
    """Yield the query's rows in bounded memory, as of an exported snapshot or of its own start.

    Raises ReadFailed, also where the snapshot cannot be imported because its holder is gone.
    """
    from adbc_driver_postgresql import dbapi

    try:
        with dbapi.connect(conninfo) as connection, connection.cursor() as cursor:
            # Not in autocommit mode: these statements and the read are one transaction.
            if snapshot is None:
                cursor.execute("set transaction read only")
            else:
                cursor.execute("set transaction isolation level repeatable read read only")
                cursor.execute(f"set transaction snapshot '{snapshot}'")
                # A waiting TRUNCATE or ALTER queues before us and behind our own driver's lock,
                # so neither would ever go on: the job gives way.
                cursor.execute(f"set local lock_timeout = '{LOCK_TIMEOUT}'")
                cursor.execute(f"{query} limit 0")
                cursor.fetch_arrow_table()
                cursor.execute("set local lock_timeout = 0")
            cursor.execute(query)
            yield from cursor.fetch_record_batch()
    except (dbapi.Error, pa.ArrowException, OSError) as error:
        # What fails after the first batch comes through Arrow, as an OSError.
        raise ReadFailed(one_line(error)) from None
