"""Writes groups into the incoming table; executors import it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa
from counting.counts import COLUMNS
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from waltally.login import one_line
from waltally.tables import Table

Origin = Literal["counted", "changed"]
"""Where a group comes from: the tables, or the changes between the fact and the snapshot."""


class WriteFailed(Exception):
    """The marker by which the driver finds the sentence in Spark's report of a failed task."""


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """What one attempt of one task has committed."""

    attempt: int
    groups: int


def incoming_target(conninfo: str, schema: str, table: str, origin: Origin) -> type[DataSource]:
    """Return a data source named `incoming_<origin>` that appends groups to the table.

    A task that Spark runs twice commits its rows twice. Each row has the attempt's id, and at the
    end only rows of the attempts that Spark reports are kept.
    """

    class IncomingWriter(DataSourceArrowWriter):
        def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
            from adbc_driver_postgresql import dbapi

            context = TaskContext.get()
            assert context is not None
            attempt = context.taskAttemptId()
            groups = 0

            try:
                with dbapi.connect(conninfo) as connection, connection.cursor() as cursor:
                    for batch in iterator:
                        rows = batch.num_rows
                        marks = [pa.array([origin] * rows), pa.array([attempt] * rows, pa.int64())]
                        marked = pa.RecordBatch.from_arrays(
                            [*batch.columns, *marks], names=[*COLUMNS, "origin", "attempt"]
                        )
                        cursor.adbc_ingest(table, marked, mode="append", db_schema_name=schema)
                        groups += rows
                    connection.commit()
            except (dbapi.Error, pa.ArrowException, OSError) as error:
                raise WriteFailed(one_line(error)) from None
            return Written(attempt, groups)

        def commit(self, messages: list[WriterCommitMessage | None]) -> None:
            import psycopg

            written = [message for message in messages if isinstance(message, Written)]
            name = Table(schema, table).quoted
            with psycopg.connect(conninfo) as connection:
                connection.execute(
                    f"delete from {name} where origin = %s and attempt <> all(%s)",
                    (origin, [message.attempt for message in written]),
                )
                row = connection.execute(
                    f"select count(*) from {name} where origin = %s", (origin,)
                ).fetchone()
            expected = sum(message.groups for message in written)
            if row is None or row[0] != expected:
                raise WriteFailed(f"wrote {expected} groups and found {row and row[0]}")

    class IncomingTarget(DataSource):
        @classmethod
        def name(cls) -> str:
            return f"incoming_{origin}"

        def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
            return IncomingWriter()

    return IncomingTarget
