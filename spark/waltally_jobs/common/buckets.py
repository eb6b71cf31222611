"""Tables of groups as a task sends them, by buckets: a group is in the same one wherever it is met.

Pure.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as compute

from waltally_jobs.common.sums import is_key

PARTIAL = "kind string, bucket int, payload binary"
"""What a task makes of its rows, for Spark: tables of a bucket each, as Arrow streams."""

_BYTES = 64_000_000


def chunks(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Yield the rows in tables of bounded size."""
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        if batch.num_rows:
            held.append(batch)
            size += batch.nbytes
        if size > _BYTES:
            yield pa.Table.from_batches(held)
            held, size = [], 0
    if held:
        yield pa.Table.from_batches(held)


def payload(kind: str, bucket: int, table: pa.Table) -> pa.RecordBatch:
    """Return a table as a row of PARTIAL."""
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, table.schema) as stream:
        stream.write_table(table)
    return pa.RecordBatch.from_pydict(
        {
            "kind": pa.array([kind], pa.string()),
            "bucket": pa.array([bucket], pa.int32()),
            "payload": pa.array([out.getvalue().to_pybytes()], pa.binary()),
        }
    )


def by_bucket(kind: str, groups: pa.Table, buckets: int) -> Iterator[pa.RecordBatch]:
    """Yield the groups by their buckets, of which there are a power of two."""
    marks = pa.repeat(pa.scalar(0, pa.int64()), groups.num_rows)
    for name in filter(is_key, groups.schema.names):
        coded = groups[name].combine_chunks().dictionary_encode(null_encoding="encode")
        own = [zlib.crc32((text or "").encode()) for text in coded.dictionary.to_pylist()]
        marks = compute.add(
            compute.multiply(marks, 31), pa.array(own, pa.int64()).take(coded.indices)
        )
    bucket = compute.bit_wise_and(compute.shift_right(marks, 8), buckets - 1)
    order = compute.sort_indices(bucket)
    groups, at = groups.take(order), 0
    for found in compute.value_counts(bucket.take(order)).to_pylist():
        yield payload(kind, found["values"], groups.slice(at, found["counts"]))
        at += found["counts"]
