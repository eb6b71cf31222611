"""Has tasks make tables of what they read: by Spark, or in this process where rows are few."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from waltally.facts import Fact
from waltally_jobs.common import arrow
from waltally_jobs.common.arrow import Read, Task
from waltally_jobs.common.buckets import PARTIAL

FEW_ROWS = 300_000
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

    def tables(self, kind: str, bucket: int | None = None) -> list[pa.Table]:
        """Return the tables of a kind and a bucket, or of all buckets."""
        if self._frame is None:
            payloads = [
                each
                for (own, place), found in self._here.items()
                if own == kind and bucket in (None, place)
                for each in found
            ]
        else:
            frame = self._frame.where(sql.col("kind") == kind)
            if bucket is not None:
                frame = frame.where(sql.col("bucket") == bucket)
            payloads = [bytes(row["payload"]) for row in frame.collect()]
        return [pa.ipc.open_stream(each).read_all() for each in payloads]


def buckets_of(fact: Fact, buckets: int) -> Iterable[int | None]:
    """Return by which buckets a fact is computed: current rows, which may move, all at once."""
    return range(buckets) if fact.kind == "fact" else [None]


def gather(start: Callable[[], SparkSession] | None, reads: Sequence[Read], task: Task) -> Gathered:
    """Return what `task` makes of each range, with the columns of PARTIAL.

    Without `start`, which gives the session, this process reads. Raises what `spark_errors` makes a
    sentence of.
    """
    if start is None or not reads:
        return Gathered(made_here(reads, task))

    return Gathered(arrow.spread(start(), reads, task, PARTIAL))


def made_here(reads: Sequence[Read], task: Task) -> list[pa.RecordBatch]:
    """Return what `task` makes of each range, which this process reads."""
    return [batch for read in reads for batch in task(read())]
