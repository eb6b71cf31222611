"""The session at the target that prunes: one at a time, and never in the way for long."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from psycopg2 import extensions, sql

from loader.staging.pruned import LOCK
from waltally.database import explained
from waltally.errors import Interrupted

TRY_SECONDS = 2
"""The longest wait for a lock while another is held; an autovacuum gives way within a second."""


class PruneSession:
    """The change log at the target, in a session of its own."""

    def __init__(self, connection: extensions.connection, schema: str, timeout: int) -> None:
        self.connection = connection
        self.schema = schema
        self.timeout = timeout
        connection.autocommit = True
        with explained("target"), connection.cursor() as cursor:
            cursor.execute("select set_config('lock_timeout', %s, false)", (f"{timeout}s",))
            # A killed prune must not hold its lock until the wait is over.
            cursor.execute("set client_connection_check_interval to '1s'")

    def acquire_prune_lock(self) -> None:
        """Keep every other prune from running until the session ends. Raises Interrupted."""
        deadline = time.monotonic() + self.timeout
        # Polled: a session that waits inside a statement would block a detach.
        while not self.query(f"select 1 where pg_try_advisory_lock({LOCK})", self.schema):
            if time.monotonic() > deadline:
                raise Interrupted(
                    f"Another prune or a setup of schema {self.schema} is running",
                    "let it end; pg_locks shows it as advisory",
                )
            time.sleep(0.2)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Run what is within in one transaction, with short waits for locks."""
        # The driver begins one where autocommit is off; the connection commits at the end of it.
        self.connection.autocommit = False
        try:
            with explained("target"), self.connection:
                self.run(f"set local lock_timeout = '{min(TRY_SECONDS, self.timeout)}s'")
                yield
        finally:
            if not self.connection.closed:
                self.connection.autocommit = True

    def query(self, query: str, *values: object, table: str = "") -> list[tuple[Any, ...]]:
        """Return the rows of a query; `{0}` in it is the schema and `{1}` the table."""
        with explained("target"), self.connection.cursor() as cursor:
            cursor.execute(self._named(query, table), values or None)
            return cursor.fetchall()

    def run(self, statement: str, values: dict[str, object] | None = None, table: str = "") -> None:
        """Run a statement; `{0}` in it is the schema and `{1}` the table."""
        with explained("target"), self.connection.cursor() as cursor:
            cursor.execute(self._named(statement, table), values)

    def _named(self, statement: str, table: str) -> sql.Composed:
        return sql.SQL(statement).format(sql.Identifier(self.schema), sql.Identifier(table))
