"""What tasks make of ranges of rows, gathered in this process: little of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pyspark.sql import SparkSession

from waltally_jobs.common import arrow
from waltally_jobs.common.arrow import Read, Task

FEW_ROWS = 300_000
"""Up to here starting Spark costs more than its rows do."""


def gather(
    start: Callable[[], SparkSession] | None, reads: Sequence[Read], task: Task, schema: str
) -> list[dict[str, Any]]:
    """Return the rows that `task` makes of each range, with the columns of the schema.

    Without `start`, which gives the session, this process reads. Raises what `spark_errors` makes a
    sentence of.
    """
    if start is None or not reads:
        return [row for read in reads for batch in task(read()) for row in batch.to_pylist()]
    return [row.asDict() for row in arrow.spread(start(), reads, task, schema).collect()]
