"""The one way in which executors read and write a database: SQL queries and rows, as Arrow batches.

Executors import this module, so it imports no driver but Arrow's: each takes a tenth of a second.
"""

from __future__ import annotations

import atexit
import contextlib
import itertools
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from waltally import failpoints
from waltally.tables import Table
from waltally_jobs.common import progress
from waltally_jobs.common.errors import ReadFailed, WriteFailed

if TYPE_CHECKING:
    from adbc_driver_postgresql.dbapi import Connection

Task = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""What a task makes of the batches that it reads."""

Start = Callable[[], SparkSession]
"""Starts Spark when it is first asked for, which takes seconds that few rows do not need."""

Read = Callable[[], Iterator[pa.RecordBatch]]
"""Reads a range; executors call it."""

_TYPES = {
    "int": pa.int32(),
    "bigint": pa.int64(),
    "string": pa.string(),
    "boolean": pa.bool_(),
    "timestamp_ltz": pa.timestamp("us", "UTC"),
    "array<int>": pa.list_(pa.int32()),
    "array<string>": pa.list_(pa.string()),
}


def schema(ddl: str) -> pa.Schema:
    """Return what Arrow calls the columns that Spark calls `ddl`: `name type, name type`."""
    return pa.schema([(name, _TYPES[kind]) for name, kind in map(str.split, ddl.split(", "))])


def batch_of(columns: pa.Schema, rows: Iterable[Sequence[object]]) -> pa.RecordBatch:
    """Return rows as a batch with these columns."""
    values = list(zip(*rows, strict=True)) or [()] * len(columns)
    arrays = [pa.array(own, kind) for own, kind in zip(values, columns.types, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=columns)


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

    # One task a range. A DataFrame of the ranges that is repartitioned, or a data source in Python
    # with its processes that plan, costs a seed of 1,000,000 rows 14 to 20 % more CPU (12.8 s).
    return spark.range(0, len(reads), 1, len(reads)).mapInArrow(make, ddl)


def collected(
    spark: SparkSession, reads: Sequence[Read], ddl: str, what: str, rows: int = 0
) -> list[dict[str, int]]:
    """Return the rows of each read, each in a Spark task; say how far they are, in these words.

    Raises what `spark_errors` makes a sentence of.
    """
    with progress.shown(spark, what, len(reads), rows):
        return [] if not reads else spread(spark, reads, iter, ddl).toArrow().to_pylist()


def batches(conninfo: str, query: str, snapshot: str | None = None) -> Iterator[pa.RecordBatch]:
    """Yield the query's rows in bounded memory, as of an exported snapshot or of its own start.

    Raises ReadFailed, also where the session that exported the snapshot has ended.
    """
    from adbc_driver_postgresql import dbapi

    try:
        with _kept_session(conninfo) as connection, connection.cursor() as cursor:
            # Autocommit is off: these statements and the read are one transaction.
            cursor.execute("set transaction isolation level repeatable read read only")
            if snapshot is not None:
                cursor.execute(f"set transaction snapshot '{snapshot}'")
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


def append(
    conninfo: str, table: Table, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Append rows, each with its attempt's id in the column `attempt`; yield WRITTEN once.

    A task that Spark runs twice commits its rows twice. Spark gives the result of one attempt: only
    its rows count. Raises WriteFailed.
    """
    from adbc_driver_postgresql import dbapi

    attempt = secrets.randbits(62)
    count = 0
    try:
        with _kept_session(conninfo) as connection, connection.cursor() as cursor:
            for batch in batches:
                mark = pa.array([attempt] * batch.num_rows, pa.int64())
                marked = batch.append_column("attempt", mark)
                cursor.adbc_ingest(table.name, marked, mode="append", db_schema_name=table.schema)
                count += batch.num_rows
            connection.commit()
            failpoints.reach("appended")
    except (dbapi.Error, pa.ArrowException, OSError) as error:
        raise WriteFailed(one_line(error)) from None
    yield pa.RecordBatch.from_pydict({"attempt": [attempt], "row_count": [count]})


_idle: dict[str, Connection] = {}
"""Sessions that live as long as the process, an executor's or the driver's.

Arrow's driver asks the server for all of its types at each login, which costs more than a small
batch.
"""


@atexit.register
def _end_idle() -> None:
    while _idle:
        _close(_idle.popitem()[1])


@contextlib.contextmanager
def _kept_session(conninfo: str) -> Iterator[Connection]:
    """Yield a session for one transaction, which the block commits or which is rolled back."""
    from adbc_driver_postgresql import dbapi

    connection = _idle.pop(conninfo, None)
    if connection is None or not _is_alive(connection):
        connection = dbapi.connect(conninfo)
    try:
        yield connection
        connection.rollback()
    except BaseException:
        _close(connection)
        raise
    _close(_idle.get(conninfo))
    _idle[conninfo] = connection


def _is_alive(connection: Connection) -> bool:
    from adbc_driver_postgresql import dbapi

    try:
        with connection.cursor() as cursor:
            cursor.execute("select 1")
            cursor.fetchall()
        connection.rollback()
    except (dbapi.Error, pa.ArrowException, OSError):
        _close(connection)
        return False
    return True


def _close(connection: Connection | None) -> None:
    from adbc_driver_postgresql import dbapi

    if connection is not None:
        with contextlib.suppress(dbapi.Error, pa.ArrowException, OSError):
            connection.close()


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
