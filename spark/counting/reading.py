"""One range of rows, read by an executor as Arrow batches in the exported snapshot."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import pyarrow as pa
from common.arrow_source import Snapshot, batches
from pyspark import Accumulator
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from counting import columns
from counting.ranges import Range


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
            for batch in batches(snapshot.conninfo, part.query, snapshot.name):
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
