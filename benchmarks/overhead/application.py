"""The server of an application that writes notifications; its database can be reset."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import psycopg2

from testkit import source
from testkit.servers import Cluster
from testkit.source import transaction

SERVICES, TEMPLATES = 10, 150
"""150 templates give each service five of each of the three types."""

SETTINGS = {
    # It would run during some measurements and not during others.
    "autovacuum": "off",
    "shared_buffers": "256MB",
    "max_wal_size": "4GB",
}

_ORIGIN, _COPY = "origin", "application"

# Free space on each page, as in a vacuumed table; without it no update could stay on its page.
_SETTLE = """
alter table notifications set (fillfactor = 80);
update notifications set personalisation = repeat('x', 310);
create extension pg_prewarm;
"""
_PREWARM = """
select pg_prewarm(oid) from pg_class
where relnamespace = 'public'::regnamespace and relkind in ('r', 'i')
"""
_STATISTICS = re.compile(r"^Total\s+\d+\s+(\d+) \[.*?\]\s+(\d+) \[", re.MULTILINE)


class Application:
    """A source server that lends fresh copies of one database."""

    def __init__(self, cluster: Cluster, rows: int) -> None:
        """Make the database to copy, with so many live rows."""
        self.cluster = cluster
        self.rows = rows
        self.dsn = cluster.dsn(_COPY)
        """The copy's connection string."""
        with self._administrator() as execute:
            execute(f"create database {_ORIGIN}")
        dsn = cluster.dsn(_ORIGIN)
        source.create(dsn)
        source.fill(dsn, SERVICES, TEMPLATES, live_rows=rows)
        with transaction(dsn) as cursor:
            cursor.execute(_SETTLE)
        with closing(psycopg2.connect(dsn)) as connection:
            connection.autocommit = True  # vacuum refuses a transaction
            with connection.cursor() as cursor:
                cursor.execute("vacuum (full, analyze) notifications")
                cursor.execute("vacuum (freeze)")

    @contextmanager
    def copy(self, wal_level: str) -> Iterator[str]:
        """Lend a fresh copy, by its connection string, under that level of WAL."""
        usual = self.cluster.settings["wal_level"]
        self._restart(wal_level)
        with self._administrator() as execute:
            execute(f"create database {_COPY} template {_ORIGIN}")
            try:
                yield self.dsn
            finally:
                execute(f"drop database {_COPY} with (force)")
        self._restart(usual)

    def warm(self) -> None:
        """Read the copy's tables and indexes into the server's memory."""
        with transaction(self.dsn) as cursor:
            cursor.execute(_PREWARM)

    def checkpoint(self) -> str:
        """Checkpoint, so that full pages are due alike; return the position of the WAL's end."""
        with self._administrator() as execute:
            execute("checkpoint")
        return self.wal_end()

    def wal_end(self) -> str:
        """Return a position after all that was written so far; up to it the WAL is on disk."""
        with transaction(self.cluster.dsn()) as cursor:
            # Commits that nobody waited for may not be on disk; a later commit flushes them too.
            cursor.execute("select pg_logical_emit_message(true, '', '')")
            cursor.connection.commit()
            cursor.execute("select pg_current_wal_flush_lsn()")
            ((end,),) = cursor.fetchall()
        return str(end)

    def wal_bytes(self, begin: str, end: str) -> tuple[int, int]:
        """Return the bytes of the records between two positions, and of the full pages in them."""
        where = str(self.cluster.data / "pg_wal")
        printed = self.cluster.run(
            "pg_waldump", "--stats", "--path", where, "--start", begin, "--end", end
        )
        found = _STATISTICS.search(printed)
        if found is None:
            raise RuntimeError(f"pg_waldump printed something else than expected:\n{printed}")
        return int(found[1]), int(found[2])

    def _restart(self, wal_level: str) -> None:
        if wal_level != self.cluster.settings["wal_level"]:
            self.cluster.stop()
            self.cluster.configure({"wal_level": wal_level})
            self.cluster.start()

    @contextmanager
    def _administrator(self) -> Iterator[Callable[[str], None]]:
        with closing(psycopg2.connect(self.cluster.dsn())) as connection:
            connection.autocommit = True
            with connection.cursor() as cursor:
                yield cursor.execute
