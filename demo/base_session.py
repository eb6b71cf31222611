"""What any traffic works with: a cursor with an open transaction, and random numbers."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

from psycopg2.extensions import cursor as Cursor


@dataclass
class BaseSession:
    """One session's open transaction, and the keys that it deleted in earlier ones."""

    cursor: Cursor
    rng: Random
    deleted: list[Any] = field(default_factory=list, kw_only=True)
    """Keys whose deletion is committed, to be inserted again later."""
    deleting: list[Any] = field(default_factory=list, kw_only=True)
    """Keys deleted in the open transaction."""

    def run(self, statement: str, *values: Any) -> int:
        """Execute a statement and return how many rows it touched."""
        self.cursor.execute(statement, values or None)
        return self.cursor.rowcount

    def fetch(self, statement: str, *values: Any) -> list[Any]:
        """Execute a statement and return its first column."""
        return [row[0] for row in self.rows(statement, *values)]

    def rows(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """Execute a statement and return its rows."""
        self.cursor.execute(statement, values or None)
        return self.cursor.fetchall()
