"""The one way in which executors write into a database: rows, marked by the task that wrote them.

Executors import this module.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame

from common.arrow_source import map_batches
from common.connections import Connection, resolved
from waltally.login import one_line
from waltally.tables import Table

_WRITTEN = "attempt bigint, row_count bigint"


class WriteFailed(Exception):
    """The marker by which the driver finds the sentence in Spark's report of a failed task."""


@dataclass(frozen=True)
class Written:
    """The attempts whose rows count, and how many these are."""

    attempts: list[int]
    row_count: int


def append(rows: DataFrame, target: Connection, table: Table) -> Written:
    """Append the rows, each with its attempt's id in the column `attempt`.

    A task that Spark runs twice commits its rows twice: only those of the attempts that are
    returned count. Where a task fails, Spark's report names WriteFailed.
    """
    conninfo = resolved(target)

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from adbc_driver_postgresql import dbapi

        context = TaskContext.get()
        assert context is not None
        attempt = context.taskAttemptId()
        count = 0
        try:
            with dbapi.connect(conninfo) as connection, connection.cursor() as cursor:
                for batch in batches:
                    mark = pa.array([attempt] * batch.num_rows, pa.int64())
                    marked = pa.RecordBatch.from_arrays(
                        [*batch.columns, mark], names=[*batch.schema.names, "attempt"]
                    )
                    cursor.adbc_ingest(
                        table.name, marked, mode="append", db_schema_name=table.schema
                    )
                    count += batch.num_rows
                connection.commit()
        except (dbapi.Error, pa.ArrowException, OSError) as error:
            raise WriteFailed(one_line(error)) from None
        yield pa.RecordBatch.from_pydict({"attempt": [attempt], "row_count": [count]})

    # Spark gives the result of one attempt of each task.
    written = map_batches(rows, write, _WRITTEN).collect()
    return Written([row["attempt"] for row in written], sum(row["row_count"] for row in written))
