"""What a change of the traffic works with: a cursor, random numbers, and the ids to choose from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, NamedTuple
from uuid import UUID, uuid4

from psycopg2.extensions import cursor as Cursor
from psycopg2.extras import execute_values

from demo.source import Identity, transaction

STATUSES = (
    "created",
    "sending",
    "pending",
    "sent",
    "delivered",
    "temporary-failure",
    "permanent-failure",
    "technical-failure",
)

NEXT_STATUS: dict[str | None, tuple[str, ...]] = {
    "created": ("sending", "sending", "technical-failure"),
    "sending": ("delivered", "delivered", "pending", "sent", "permanent-failure"),
    "pending": ("delivered", "temporary-failure"),
    "temporary-failure": ("sending",),
}
"""Notify's life cycle; a status that is not a key here is final."""


class Template(NamedTuple):
    """A template with what its notifications take from it."""

    template_id: str
    service_id: str
    notification_type: str


def templates_of(dsn: str) -> list[Template]:
    """Read all templates in a stable order."""
    with transaction(dsn) as cursor:
        cursor.execute(
            "select id::text, service_id::text, template_type::text from templates order by id"
        )
        return [Template(*row) for row in cursor]


@dataclass
class Session:
    """One session's open transaction, and the notifications that it deleted in earlier ones."""

    cursor: Cursor
    rng: Random
    templates: Sequence[Template]
    identity: Identity
    deleted: list[str] = field(default_factory=list)
    """Ids whose deletion is committed, to be inserted again later."""
    deleting: list[str] = field(default_factory=list)
    """Ids deleted in the open transaction."""

    def run(self, statement: str, *values: Any) -> int:
        """Execute a statement and return how many rows it touched."""
        self.cursor.execute(statement, values or None)
        return self.cursor.rowcount

    def fetch(self, statement: str, *values: Any) -> list[Any]:
        """Execute a statement and return its first column."""
        self.cursor.execute(statement, values or None)
        return [row[0] for row in self.cursor.fetchall()]

    def new_id(self) -> str:
        """Return an id that no row has, even where the same seed has run before."""
        return str(uuid4())

    def some_ids(self, table: str, limit: int = 1, where: str = "true") -> list[str]:
        """Return up to `limit` neighbouring ids from a random one on; none if no row follows."""
        place = str(UUID(int=self.rng.getrandbits(128)))
        return self.fetch(
            # Qualified: a bare id would be the output's text, for which there is no index.
            f"select id::text from {table} where id >= %s and {where} order by {table}.id limit %s",
            place,
            limit,
        )

    def dimensions(self) -> tuple[str | None, str | None, str]:
        """Return a service, a template and a type; under 'full' one is rarely null."""
        template = self.rng.choice(self.templates)
        kind = template.notification_type
        if self.identity == "full" and self.rng.random() < 0.05:
            return self.rng.choice(
                [(None, template.template_id, kind), (template.service_id, None, kind)]
            )
        return template.service_id, template.template_id, kind

    def insert(self, ids: Sequence[str], status: str = "created", odd: str | None = None) -> int:
        """Insert notifications in one statement; rows whose id exists already stay as they are.

        Returns how many were inserted.
        """
        rows = [
            (
                row_id,
                f"{row_id[:8]}@example.gov.uk",
                *self.dimensions(),
                status,
                self.rng.choice(["normal", "normal", "normal", "team", "test"]),
                odd,
            )
            for row_id in ids
        ]
        execute_values(
            self.cursor,
            'insert into notifications (id, "to", service_id, template_id, notification_type, '
            "notification_status, key_type, personalisation) values %s on conflict do nothing",
            rows,
            page_size=len(rows),
        )
        return self.cursor.rowcount
