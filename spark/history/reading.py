"""One range of rows, read by an executor as Arrow batches in the exported snapshot."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark import Accumulator
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from history import columns
from history.ranges import Range
from loader.login import told

LOCK_TIMEOUT = "5s"


class ReadFailed(Exception):
    """The marker by which the driver finds the sentence in Spark's report of a failed task."""


@dataclass(frozen=True)
class Snapshot:
    """Where and as of when to read; `conninfo` may hold a password."""

    conninfo: str
    name: str

    def __repr__(self) -> str:
        return f"Snapshot({self.name})"


def batches(snapshot: Snapshot, query: str) -> Iterator[pa.RecordBatch]:
    """Yield the query's rows as the snapshot has them, in bounded memory.

    Raises ReadFailed, also where the snapshot cannot be imported because its holder is gone.
    """
    from adbc_driver_postgresql import dbapi

    try:
        with dbapi.connect(snapshot.conninfo) as connection, connection.cursor() as cursor:
            # Not in autocommit mode: these statements and the read are one transaction.
            cursor.execute("set transaction isolation level repeatable read read only")
            cursor.execute(f"set transaction snapshot '{snapshot.name}'")
            # A waiting TRUNCATE or ALTER queues before us and behind our own driver's lock, so
            # neither would ever go on: the seed gives way.
            cursor.execute(f"set local lock_timeout = '{LOCK_TIMEOUT}'")
            cursor.execute(f"{query} limit 0")
            cursor.fetch_arrow_table()
            cursor.execute("set local lock_timeout = 0")
            cursor.execute(query)
            yield from cursor.fetch_record_batch()
    except (dbapi.Error, pa.ArrowException, OSError) as error:
        # What fails after the first batch comes through Arrow, as an OSError.
        raise ReadFailed(told(error)) from None


def snapshot_source(
    snapshot: Snapshot,
    ranges: Sequence[Range],
    as_bytes: Collection[str],
    rows: Accumulator[int],
    pages: Accumulator[int],
) -> type[DataSource]:
    """Return a data source named `snapshot`: one task a range, which adds to rows and pages.

    The dimensions in `as_bytes`, which the ranges read as uuids, are binary columns of it.
    The connection travels in the closure: an option would show in the query's plan.
    """

    class RangeReader(DataSourceReader):
        def partitions(self) -> Sequence[InputPartition]:
            return [InputPartition(number) for number in range(len(ranges))]

        def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
            part = ranges[partition.value]
            for batch in batches(snapshot, part.query):
                rows.add(batch.num_rows)
                yield columns.labelled(batch, part.source_table, as_bytes)
            pages.add(part.pages)

    class SnapshotSource(DataSource):
        @classmethod
        def name(cls) -> str:
            return "snapshot"

        def schema(self) -> str:
            return columns.schema(as_bytes)

        def reader(self, schema: StructType) -> DataSourceReader:
            return RangeReader()

    return SnapshotSource
