"""The incoming table, beside the baselines, and how groups come into it; executors import it."""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections.abc import Callable, Iterator

import psycopg
import pyarrow as pa
from common.arrow_source import map_batches
from common.connections import Connection, resolved
from common.errors import AnotherSeed, CountingFailed
from common.settings import Settings
from counting.counts import COLUMNS
from pyspark import TaskContext
from pyspark.sql import DataFrame

from waltally.login import one_line
from waltally.settings import jobs_schema
from waltally.tables import Table

_POLL_SECONDS = 0.2


def incoming_table(settings: Settings) -> Table:
    """Return the slot's incoming table."""
    mark = hashlib.sha256(settings.slot.encode()).hexdigest()[:16]
    return Table(jobs_schema(settings.schema), f"baseline_group_incoming_{mark}")


@contextlib.contextmanager
def acquire_seed_lock(
    target: Connection, settings: Settings, notify: Callable[[str], None]
) -> Iterator[None]:
    """Keep other seeds of the slot away, and make an empty incoming table for the block.

    Waits `settings.timeout` seconds for another seed, then raises AnotherSeed. So no seed takes its
    snapshot before another one has stored a baseline that it would replace.
    """
    key = {"key": f"waltally seed {settings.schema} {settings.slot}"}
    deadline = time.monotonic() + settings.timeout
    notified = False
    while target.execute(
        "select pg_try_advisory_lock(hashtextextended(%(key)s, 0))", key
    ).fetchone() != (True,):
        if not notified:
            notify(f"waiting for another seed of slot {settings.slot}")
            notified = True
        if time.monotonic() > deadline:
            raise AnotherSeed(
                f"another seed of slot {settings.slot} is running",
                "let it end, then run the seed again, or raise --timeout",
            )
        time.sleep(_POLL_SECONDS)
    incoming = incoming_table(settings).quoted
    # A killed seed leaves its table.
    target.execute(f"drop table if exists {incoming}")
    target.execute(
        f"create unlogged table {incoming} (fact text, part text, dimensions text[],"
        " row_count bigint, sums text[], reason text, example text, attempt bigint)"
    )
    try:
        yield
    finally:
        with contextlib.suppress(psycopg.Error):
            target.execute(f"drop table if exists {incoming}")


_WRITTEN = "attempt bigint, group_count bigint"
"""What a task reports: its attempt's id and how many groups it has committed."""


class WriteFailed(Exception):
    """The marker by which the driver finds the sentence in Spark's report of a failed task."""


def write(groups: DataFrame, target: Connection, table: Table) -> None:
    """Append the groups, which have the columns COLUMNS, to the incoming table.

    A task that Spark runs twice commits its rows twice. Each row has the attempt's id, and at the
    end only rows of the attempts that Spark reports are kept. Raises CountingFailed.
    """
    conninfo = resolved(target)

    def append(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
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
                        [*batch.columns, mark], names=[*COLUMNS, "attempt"]
                    )
                    cursor.adbc_ingest(
                        table.name, marked, mode="append", db_schema_name=table.schema
                    )
                    count += batch.num_rows
                connection.commit()
        except (dbapi.Error, pa.ArrowException, OSError) as error:
            raise WriteFailed(one_line(error)) from None
        yield pa.RecordBatch.from_pydict({"attempt": [attempt], "group_count": [count]})

    # Spark gives the result of one attempt of each task.
    written = map_batches(groups.select(*COLUMNS), append, _WRITTEN).collect()
    with target.transaction():
        target.execute(
            f"delete from {table.quoted} where attempt <> all(%s)",
            ([row["attempt"] for row in written],),
        )
        found = target.execute(f"select count(*) from {table.quoted}").fetchone()
    expected = sum(row["group_count"] for row in written)
    if found != (expected,):
        raise CountingFailed(
            f"Spark reports {expected:,} groups and {found and found[0]:,} are stored",
            "run the seed again",
        )
