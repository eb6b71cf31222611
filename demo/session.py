"""What a change of Notify's traffic works with: a session, and the ids to choose from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID, uuid4

from psycopg2.extras import execute_values

from demo.base_session import BaseSession
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

KEY_TYPES = ("normal", "normal", "normal", "team", "test")
"""The kinds of key that notifications are sent with; a test key's are no real ones."""

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
class Session(BaseSession):
    """A session that writes notifications; it deletes and inserts by their ids."""

    templates: Sequence[Template]
    identity: Identity

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
                self.rng.choice(KEY_TYPES),
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
