"""The one way in which executors read and write a database: SQL queries and rows, as Arrow batches.

Executors import this module, so it imports no driver but Arrow's: each takes a tenth of a second.
"""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from waltally import failpoints
from waltally.tables import Table
from waltally_jobs.common import kept
from waltally_jobs.common.errors import ReadFailed, WriteFailed

Task = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""What a task makes of the batches that it reads."""

Read = Callable[[], Iterator[pa.RecordBatch]]
"""Reads a range; executors call it."""

LOCK_TIMEOUT = "5s"

FEW_ROWS = 300_000
"""Up to here starting Spark costs more than its rows do."""


@dataclass(frozen=True)
class Snapshot:
    """An exported snapshot and the server that has it; `conninfo` may hold a password."""

    conninfo: str
    name: str

    def __repr__(self) -> str:
        return f"Snapshot({self.name})"


def queries(conninfo: str, texts: Sequence[str], snapshot: str | None = None) -> list[Read]:
    """Return what reads the rows of each query, SQL without parameters, as `batches` does."""
    return [partial(batches, conninfo, text, snapshot) for text in texts]


def spread(spark: SparkSession, reads: Sequence[Read], task: Task, ddl: str) -> DataFrame:
    """Return what `task` makes of each range, in the Spark task that reads it: columns of `ddl`.

    Nothing is read yet. Where a task fails later, Spark's report names ReadFailed or WriteFailed.
    """
    if not reads:
        return spark.createDataFrame([], ddl)

    # The reads, and the logins in them, travel in the closure: an option or a column would show in
    # the query's plan.
    def make(places: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for place in itertools.chain.from_iterable(each["id"].to_pylist() for each in places):
            yield from task(reads[place]())

    # One task a range. A data source in Python would start three more kinds of Python process, half
    # a second each, to plan what is known here.
    return spark.range(0, len(reads), 1, len(reads)).mapInArrow(make, ddl)


def batches(conninfo: str, query: str, snapshot: str | None = None) -> Iterator[pa.RecordBatch]:
    """Yield the query's rows in bounded memory, as of an exported snapshot or of its own start.

    Raises ReadFailed, also where the session that exported the snapshot has ended.
    """
    from adbc_driver_postgresql import dbapi

    try:
        # A snapshot is read for long, so it has a session of its own.
        opened = kept.session(conninfo) if snapshot is None else dbapi.connect(conninfo)
        with opened as connection, connection.cursor() as cursor:
            # Autocommit is off: these statements and the read are one transaction.
            if snapshot is None:
                cursor.execute("set transaction read only")
            else:
                cursor.execute("set transaction isolation level repeatable read read only")
                cursor.execute(f"set transaction snapshot '{snapshot}'")
                # The driver's session holds a lock on the table. A TRUNCATE or ALTER that waits
                # for that lock blocks this reader, and would wait for ever: the job gives way.
                cursor.execute(f"set local lock_timeout = '{LOCK_TIMEOUT}'")
                cursor.execute(f"{query} limit 0")
                cursor.fetch_arrow_table()
                cursor.execute("set local lock_timeout = 0")
            cursor.execute(query)
            yield from cursor.fetch_record_batch()
    except (dbapi.Error, pa.ArrowException, OSError) as error:
        # Arrow raises what fails after the first batch as an OSError.
        raise ReadFailed(one_line(error)) from None


WRITTEN = "attempt bigint, row_count bigint"
"""What a task says that has appended rows."""


def written(batches: Iterable[pa.RecordBatch]) -> dict[int, int]:
    """Return by attempt how many rows it has appended, of batches with the columns of WRITTEN."""
    rows = (row for batch in batches for row in batch.to_pylist())
    return {row["attempt"]: row["row_count"] for row in rows}


def appending(conninfo: str, table: Table) -> Task:
    """Return the task that appends rows, with the columns of WRITTEN. Raises WriteFailed."""

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        attempt, count = append(conninfo, table, batches)
        yield pa.RecordBatch.from_pydict({"attempt": [attempt], "row_count": [count]})

    return write


def append(conninfo: str, table: Table, batches: Iterable[pa.RecordBatch]) -> tuple[int, int]:
    """Append rows, each with its attempt's id in the column `attempt`; return it, and how many.

    A task that Spark runs twice commits its rows twice. Spark gives the result of one attempt: only
    its rows count. Raises WriteFailed.
    """
    from adbc_driver_postgresql import dbapi

    attempt = secrets.randbits(62)
    count = 0
    try:
        with kept.session(conninfo) as connection, connection.cursor() as cursor:
            for batch in batches:
                mark = pa.array([attempt] * batch.num_rows, pa.int64())
                marked = pa.RecordBatch.from_arrays(
                    [*batch.columns, mark], names=[*batch.schema.names, "attempt"]
                )
                cursor.adbc_ingest(table.name, marked, mode="append", db_schema_name=table.schema)
                count += batch.num_rows
            connection.commit()
            failpoints.reach("appended")
    except (dbapi.Error, pa.ArrowException, OSError) as error:
        raise WriteFailed(one_line(error)) from None
    return attempt, count


def one_line(error: Exception) -> str:
    """Return a driver's error in one line.

    Of a failed connection that is the whole text: libpq tries every address of a host, and the
    reason may be in the last line. Of any other error it is the first line: details and context
    may quote a row.
    """
    text = str(error).strip()
    lines = text.splitlines()
    if "connection to server" in text or len(lines) < 2:
        return " ".join(text.split())
    return lines[0]
