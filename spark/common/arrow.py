"""The one way in which executors read and write a database: SQL queries and rows, as Arrow batches.

Executors import this module, so it imports no driver but Arrow's: each takes a tenth of a second.
"""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark import Accumulator
from pyspark.sql import DataFrame, SparkSession

from common import kept
from common.errors import ReadFailed, WriteFailed
from waltally.tables import Table

Task = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""What a task makes of the batches that it reads."""


def map_batches(frame: DataFrame, task: Task, ddl: str) -> DataFrame:
    """Return what `task` makes of the batches of each partition, with the columns of `ddl`."""
    return frame.mapInArrow(task, ddl)


LOCK_TIMEOUT = "5s"


@dataclass(frozen=True)
class Snapshot:
    """An exported snapshot and the server that has it; `conninfo` may hold a password."""

    conninfo: str
    name: str

    def __repr__(self) -> str:
        return f"Snapshot({self.name})"


@dataclass(frozen=True)
class Query:
    """What one task reads: SQL without parameters.

    `size` is how much work it is, in any unit. `row_count`, which is sent to the executors, says
    how many rows were read for a batch where the server has grouped them.
    """

    text: str
    size: int = 1
    row_count: Callable[[pa.RecordBatch], int] | None = None


class Counters:
    """How many rows the tasks have read, and the total size of the queries that are read."""

    def __init__(self, read_rows: Accumulator[int], read_size: Accumulator[int]) -> None:
        """Begin at zero."""
        self.read_rows, self.read_size = read_rows, read_size

    @property
    def rows(self) -> int:
        """The rows that are read so far."""
        return self.read_rows.value

    @property
    def size(self) -> int:
        """The size of the queries that were read to their end."""
        return self.read_size.value


def rows(
    spark: SparkSession,
    conninfo: str,
    queries: Sequence[str | Query],
    ddl: str,
    snapshot: str | None = None,
    counters: Counters | None = None,
) -> DataFrame:
    """Return the rows of all queries, with the columns that `ddl` declares to Spark.

    With the name of an exported snapshot every query reads as of it; without one each query reads
    as of its own start. Nothing is read yet. Where a task fails later, Spark's report names
    ReadFailed.
    """
    return mapped(spark, conninfo, queries, lambda batches: batches, ddl, snapshot, counters)


def mapped(
    spark: SparkSession,
    conninfo: str,
    queries: Sequence[str | Query],
    task: Task,
    ddl: str,
    snapshot: str | None = None,
    counters: Counters | None = None,
) -> DataFrame:
    """Return what `task` makes of each query's rows, in the Spark task that reads them."""
    if not queries:
        return spark.createDataFrame([], ddl)
    parts = [each if isinstance(each, Query) else Query(each) for each in queries]
    read_rows = counters.read_rows if counters else None
    read_size = counters.read_size if counters else None

    # The connection string travels in the closure: an option would show in the query's plan.
    def read(places: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for place in itertools.chain.from_iterable(each["id"].to_pylist() for each in places):
            yield from task(counted(parts[place]))

    def counted(query: Query) -> Iterator[pa.RecordBatch]:
        for batch in batches(conninfo, query.text, snapshot):
            if read_rows is not None:
                read_rows.add(query.row_count(batch) if query.row_count else batch.num_rows)
            yield batch
        if read_size is not None:
            read_size.add(query.size)

    # One task per query. A data source in Python would start three more kinds of Python process,
    # half a second each, to plan what is known here.
    places = spark.range(0, len(parts), 1, len(parts))
    return map_batches(places, read, ddl)


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
