"""Streams a table's changes, as typed rows, into any sink that the session has.

What is read, and how far, is a matter of the format `waltally` and of Spark's checkpoint: this only
joins the two. A batch that is written twice has the same rows, and the sink takes it once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

import typer
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from waltally.options import Schema, Slot, Source, Target
from waltally.settings import DEFAULT_SCHEMA, DEFAULT_SLOT, SlotSettings, parse_conninfo
from waltally.tables import parse_table
from waltally_jobs.common import session
from waltally_jobs.common.command import STOPS, Job, MaxChanges, Once, Stop
from waltally_jobs.common.errors import TABLE_CHANGED, spark_errors
from waltally_jobs.common.progress import print_status


@dataclass(frozen=True)
class HistorySettings(SlotSettings):
    """What is streamed and where to; without an interval up to what is staged at the start."""

    source: str = field(repr=False)
    table: str
    to: str
    format: str = "parquet"
    checkpoint: str = ""
    interval: float | None = None
    max_changes: int = 1_000_000

    def options(self) -> dict[str, str]:
        """Return the options of the format `waltally`."""
        places = {"target": self.target, "source": self.source}
        return {
            # One with a password is a variable of the environment, where the format looks too.
            **{
                name: dsn
                for name, dsn in places.items()
                if dsn and not any("password" in word for word in parse_conninfo(dsn, name))
            },
            "slot": self.slot,
            "schema": self.schema,
            "table": str(parse_table(self.table)),
            "maxChanges": str(self.max_changes),
            "reader": f"history of {self.table} in {self.to}",
        }


def write(settings: HistorySettings, stop: Stop | None = None) -> None:
    """Stream until what is staged is written, or with an interval until `stop`. Raises LoaderError.

    Where the table has other columns now, the stream begins again with them.
    """
    stop = stop or Stop()
    with session.running("history") as spark, spark_errors("history"):
        import waltally_source  # registers the format in the session that is there now

        waltally_source.register(spark)
        # A job that was killed while it planned its first batch leaves a temporary file there.
        spark.conf.set("spark.sql.streaming.verifyCheckpointDirectoryEmptyOnStart", "false")
        while not _ends(spark, settings, stop):
            print_status(f"{settings.table} has other columns or types now: the stream takes them")


def _ends(spark: SparkSession, settings: HistorySettings, stop: Stop) -> bool:
    """Run one stream to its end; return False where the table has other columns now."""
    changes = spark.readStream.format("waltally").options(**settings.options()).load()
    places = {
        "checkpointLocation": settings.checkpoint or f"{settings.to.rstrip('/')}/_checkpoint",
        # Of Delta and Iceberg; Parquet's reader has the option.
        "mergeSchema": "true",
    }
    sink = changes.writeStream.format(settings.format).options(**places)
    if settings.interval is None:
        sink = sink.trigger(availableNow=True)
    else:
        sink = sink.trigger(processingTime=f"{settings.interval} seconds")
    query = sink.start(settings.to)
    try:
        while not query.awaitTermination(1):
            if stop.wait(0):
                query.stop()
    except StreamingQueryException as error:
        if TABLE_CHANGED not in str(error):
            raise
        return False
    return True


app = Job("What was written before is intact; run it again to go on.")


@app.command()
def run(
    table: Annotated[str, typer.Option(metavar="SCHEMA.NAME", help="The table.")],
    to: Annotated[
        str, typer.Option(metavar="PATH", help="Where the rows go, as the sink takes it.")
    ],
    source: Source = "",
    target: Target = "",
    slot: Slot = DEFAULT_SLOT,
    schema: Schema = DEFAULT_SCHEMA,
    format_: Annotated[
        str, typer.Option("--format", metavar="NAME", help="A sink that the session has.")
    ] = "parquet",
    checkpoint: Annotated[
        str, typer.Option(metavar="PATH", help="Spark's checkpoint.", show_default="TO/_checkpoint")
    ] = "",
    once: Once = False,
    interval: Annotated[
        float, typer.Option(min=0.1, help="Seconds from one batch to the next.")
    ] = 10.0,
    max_changes: MaxChanges = HistorySettings.max_changes,
) -> None:
    """Stream a table's changes, each once, as typed rows with the old row beside them.

    For instance: spark-submit spark/history.py --table public.orders --to s3a://lake/orders
    """
    where = (target or source, slot, schema, source)
    pace = (None if once else interval, max_changes)
    write(HistorySettings(*where, table, to, format_, checkpoint, *pace), Stop(*STOPS))
