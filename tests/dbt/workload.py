"""A random application: changes as wal2json sends them, and what counting its rows would give."""

from __future__ import annotations

import random
import uuid
from collections import Counter
from typing import Any

Row = dict[str, Any]
Group = tuple[str | None, ...]

LIVE = "public.notifications"
ARCHIVE = "public.notification_history"
DIMENSIONS = ("service_id", "template_id", "notification_type", "notification_status")
SERVICES = [str(uuid.UUID(int=number)) for number in range(1, 4)]
TEMPLATES = [str(uuid.UUID(int=number)) for number in range(10, 13)]
VALUES: dict[str, list[Any]] = {
    "service_id": [*SERVICES, None],
    "notification_status": ["created", "sending", None],
    "key_type": ["normal", "team"],
    "billable_units": [0, 1, 2],
}
"""Of a column that changes."""


def image(row: Row) -> list[Row]:
    """The row as wal2json prints its columns."""
    return [{"name": name, "value": value} for name, value in row.items()]


def change(action: str, table: str, old: Row | None = None, new: Row | None = None) -> Row:
    """One wal2json change; `old` holds what the replica identity carries."""
    schema, _, name = table.partition(".")
    parts = {"columns": new, "identity": old}
    images = {key: image(row) for key, row in parts.items() if row is not None}
    return {"action": action, "schema": schema, "table": name, **images}


def row(**columns: Any) -> Row:
    """A notification, different from the usual one where the caller says so."""
    usual = {
        "id": "1",
        "service_id": SERVICES[0],
        "template_id": TEMPLATES[0],
        "notification_type": "email",
        "notification_status": "created",
        "key_type": "normal",
        "billable_units": 1,
    }
    return {**usual, **columns}


class Application:
    """Two tables in memory under REPLICA IDENTITY FULL."""

    def __init__(self, seed: int, truncates: bool = True) -> None:
        self.random = random.Random(seed)
        self.truncates = truncates
        self.live: dict[str, Row] = {}
        self.history: dict[str, Row] = {}
        self.purged: Counter[Group] = Counter()

    def transaction(self) -> list[Row]:
        """A few changes that commit together; now and then one row changes several times."""
        return [part for _ in range(self.random.randint(1, 6)) for part in self.step()]

    def step(self) -> list[Row]:
        """Insert, update, delete or archive a row; rarely empty a table."""
        dice = self.random.random
        table, rows = (LIVE, self.live) if dice() < 0.8 else (ARCHIVE, self.history)
        if self.truncates and dice() < 0.01:
            rows.clear()
            if table == ARCHIVE:
                self.purged.clear()
            return [change("T", table)]
        if not rows or (table == LIVE and dice() < 0.4):
            new = self.changed(row(id=str(self.random.getrandbits(64))))
            rows[new["id"]] = new
            return [change("I", table, new=new)]
        old = rows.pop(self.random.choice(list(rows)))
        if dice() < 0.6:
            rows[old["id"]] = new = self.changed(old)
            return [change("U", table, old, new)]
        if table == ARCHIVE:
            self.purged.update(counted([old]))
        elif dice() < 0.7:
            self.history[old["id"]] = old
            return [change("I", ARCHIVE, new=old), change("D", LIVE, old)]
        return [change("D", table, old)]

    def changed(self, old: Row) -> Row:
        """The row with another value in one column; at times the same value."""
        column = self.random.choice(list(VALUES))
        return {**old, column: self.random.choice(VALUES[column])}

    def counts(self) -> dict[Group, tuple[int, int]]:
        """Group to (live, archived); groups of no rows are missing."""
        live = counted(self.live.values())
        archived = counted(self.history.values()) + self.purged
        return {group: (live[group], archived[group]) for group in live | archived}


def counted(rows: Any) -> Counter[Group]:
    """How many rows each group has."""
    return Counter(tuple(each[name] for name in DIMENSIONS) for each in rows)
