"""The one way in which executors read and write a database: SQL queries and rows, as Arrow batches.

Executors import this module, so it imports no driver but Arrow's: each takes a tenth of a second.
"""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from waltally import failpoints
from waltally.tables import Table
from waltally_jobs.common import progress
from waltally_jobs.common.errors import ReadFailed, WriteFailed

Read = Callable[[], Iterator[pa.RecordBatch]]
"""Reads a range, and perhaps writes it; executors call it."""

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


def spread(spark: SparkSession, reads: Sequence[Read], ddl: str) -> DataFrame:
    """Return what the reads give, each in a Spark task: columns of `ddl`.

    Nothing is read yet. Where a task fails later, Spark's report names ReadFailed or WriteFailed.
    """

    # The reads, and the logins in them, travel in the closure: an option or a column would show in
    # the query's plan.
    def make(places: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for place in itertools.chain.from_iterable(each["id"].to_pylist() for each in places):
            yield from reads[place]()

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
        return spread(spark, reads, ddl).toArrow().to_pylist() if reads else []


def batches(conninfo: str, query: str) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a query, SQL without parameters, in bounded memory. Raises ReadFailed."""
    from adbc_driver_postgresql import dbapi

    try:
        with dbapi.connect(conninfo) as connection, connection.cursor() as cursor:
            cursor.execute(query)
            yield from cursor.fetch_record_batch()
    except (dbapi.Error, pa.ArrowException, OSError) as error:
        # Arrow raises what fails after the first batch as an OSError.
        raise ReadFailed(one_line(error)) from None


def append(conninfo: str, table: Table, batches: Iterable[pa.RecordBatch]) -> int:
    """Append rows, each with its attempt's id in the column `attempt`; return that.

    A task that Spark runs twice commits its rows twice. Spark gives the result of one attempt: only
    its rows count. Raises WriteFailed.
    """
    from adbc_driver_postgresql import dbapi

    attempt = secrets.randbits(62)
    try:
        with dbapi.connect(conninfo) as connection, connection.cursor() as cursor:
            for batch in batches:
                mark = pa.array([attempt] * batch.num_rows, pa.int64())
                marked = batch.append_column("attempt", mark)
                cursor.adbc_ingest(table.name, marked, mode="append", db_schema_name=table.schema)
            connection.commit()
            failpoints.reach("appended")
    except (dbapi.Error, pa.ArrowException, OSError) as error:
        raise WriteFailed(one_line(error)) from None
    return attempt


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
