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
        self.weights = [30, 40, 10, 8, 4, 6, int(truncates)]
        self.live: dict[str, Row] = {}
        self.history: dict[str, Row] = {}
        self.purged: Counter[Group] = Counter()
        self.truncated = 0

    def transaction(self) -> list[Row]:
        """A few changes that commit together; now and then one row changes several times."""
        return [part for _ in range(self.random.randint(1, 6)) for part in self.step()]

    def step(self) -> list[Row]:
        kind = self.random.choices(
            ["insert", "update", "archive", "late", "purge", "delete", "truncate"],
            self.weights,
        )[0]
        return list(getattr(self, kind)())

    def some(self) -> Row:
        choose = self.random.choice
        return row(
            id=str(self.random.getrandbits(64)),
            service_id=choose([*SERVICES, None]),
            template_id=choose(TEMPLATES),
            notification_type=choose(["email", "sms"]),
            notification_status=choose(["created", "sending", None]),
            key_type=choose(["normal", "team"]),
            billable_units=self.random.randint(0, 5),
        )

    def insert(self) -> list[Row]:
        new = self.some()
        self.live[new["id"]] = new
        return [change("I", LIVE, new=new)]

    def moved(self, old: Row) -> Row:
        column = self.random.choice(["notification_status", "service_id", "billable_units", "id"])
        return {**old, column: self.some()[column]} if column != "id" else dict(old)

    def update(self) -> list[Row]:
        if not self.live:
            return []
        old = self.live[self.random.choice(list(self.live))]
        self.live[old["id"]] = new = self.moved(old)
        return [change("U", LIVE, old, new)]

    def archive(self) -> list[Row]:
        if not self.live:
            return []
        old = self.live.pop(self.random.choice(list(self.live)))
        self.history[old["id"]] = old
        return [change("I", ARCHIVE, new=old), change("D", LIVE, old)]

    def late(self) -> list[Row]:
        if not self.history:
            return []
        old = self.history[self.random.choice(list(self.history))]
        self.history[old["id"]] = new = self.moved(old)
        return [change("U", ARCHIVE, old, new)]

    def purge(self) -> list[Row]:
        if not self.history:
            return []
        old = self.history.pop(self.random.choice(list(self.history)))
        self.purged.update(counted([old]))
        return [change("D", ARCHIVE, old)]

    def delete(self) -> list[Row]:
        if not self.live:
            return []
        return [change("D", LIVE, self.live.pop(self.random.choice(list(self.live))))]

    def truncate(self) -> list[Row]:
        tables = self.random.choice([[LIVE], [ARCHIVE], [LIVE, ARCHIVE]])
        if LIVE in tables:
            self.live.clear()
        if ARCHIVE in tables:
            self.history.clear()
            self.purged.clear()
        self.truncated += 1
        return [change("T", table) for table in tables]

    def counts(self) -> dict[Group, tuple[int, int]]:
        """Group to (live, archived); groups of no rows are missing."""
        live = counted(self.live.values())
        archived = counted(self.history.values()) + self.purged
        return {group: (live[group], archived[group]) for group in live | archived}


def counted(rows: Any) -> Counter[Group]:
    """How many rows each group has."""
    return Counter(tuple(each[name] for name in DIMENSIONS) for each in rows)
