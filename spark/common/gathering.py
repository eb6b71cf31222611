"""Has tasks make tables of what they read: by Spark, or in this process where rows are few."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from common import arrow
from common.arrow import ReadFailed, Task
from common.buckets import PARTIAL

FEW_ROWS = 100_000
"""Up to here starting Spark costs more than its rows do."""


_BYTES_HERE = 200_000_000
"""More than that stays where the executors have it, until a bucket is asked for."""


class Gathered:
    """The tables that tasks have made, kept until the job ends."""

    def __init__(self, held: DataFrame | list[pa.RecordBatch]) -> None:
        """Run the tasks of a frame: what they read may be gone later."""
        self._frame: DataFrame | None = None
        batches: list[pa.RecordBatch] = []
        if not isinstance(held, DataFrame):
            batches = held
        elif (
            held.persist().agg(sql.expr("sum(octet_length(payload))")).collect()[0][0] or 0
        ) <= _BYTES_HERE:
            batches = held.toArrow().to_batches()
        else:
            self._frame = held
        self._here: dict[tuple[str, int], list[bytes]] = {}
        for row in itertools.chain.from_iterable(each.to_pylist() for each in batches):
            self._here.setdefault((row["kind"], row["bucket"]), []).append(row["payload"])

    def tables(self, kind: str, bucket: int) -> list[pa.Table]:
        """Return the tables of a kind and a bucket."""
        payloads = self._here.get((kind, bucket), [])
        if self._frame is not None:
            own = self._frame.where((sql.col("kind") == kind) & (sql.col("bucket") == bucket))
            payloads = [bytes(row["payload"]) for row in own.collect()]
        return [pa.ipc.open_stream(each).read_all() for each in payloads]


def gather(
    start: Callable[[], SparkSession] | None,
    conninfo: str,
    queries: Sequence[str],
    task: Task,
    snapshot: str | None = None,
) -> Gathered:
    """Return what `task` makes of each query's rows, with the columns of PARTIAL.

    Without `start`, which gives the session, they are read in this process. Raises what
    `spark_errors` makes a sentence of.
    """
    if start is not None:
        return Gathered(arrow.mapped(start(), conninfo, queries, task, PARTIAL, snapshot))
    return Gathered(made_here(conninfo, queries, task, snapshot))


def made_here(
    conninfo: str, queries: Sequence[str], task: Task, snapshot: str | None
) -> list[pa.RecordBatch]:
    """Return what `task` makes of each query's rows, which this process reads."""
    try:
        found = [list(task(arrow.batches(conninfo, each, snapshot))) for each in queries]
    except ReadFailed as error:
        raise OSError(f"ReadFailed: {error}") from None
    return list(itertools.chain.from_iterable(found))
