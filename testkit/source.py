"""The source of the demo and the tests: Notify's two tables, what they refer to, and their rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Literal

import psycopg2
from psycopg2.extensions import cursor as Cursor

DIMENSIONS = ("service_id", "template_id", "notification_type", "notification_status")

Identity = Literal["full", "covering"]
"""What an old row in the WAL has: the whole row, or a unique index's not-null columns."""

TABLES = ("notifications", "notification_history")

_HERE = Path(__file__).parent

# The recount of the archive needs the rows that were purged. The source's tables must not be
# altered, so the transaction that purges rows also records them here.
_TRUTH = """
create schema truth;
create table truth.purged as
select service_id, template_id, notification_type, notification_status, key_type, created_at
from notification_history;
alter table truth.purged add xid bigint default pg_current_xact_id()::xid::text::bigint;
"""


@contextmanager
def transaction(dsn: str) -> Iterator[Cursor]:
    """Open a connection for one transaction; it commits at the end and closes in any case."""
    with closing(psycopg2.connect(dsn)) as connection, connection, connection.cursor() as cursor:
        yield cursor


def create(dsn: str) -> None:
    """Make the source's empty tables, and `truth.purged` for the recount, in an empty database."""
    with transaction(dsn) as cursor:
        cursor.execute((_HERE / "notify.sql").read_text())
        cursor.execute(_TRUTH)


def fill(
    dsn: str,
    services: int = 40,
    templates: int = 200,
    live_rows: int = 0,
    history_rows: int = 0,
    seed: int = 1,
    null_share: float = 0.0,
) -> None:
    """Fill the empty tables on the server; the same arguments give the same rows.

    `null_share` (0 to 0.1) of the rows have no service, as many no status and twice as many no
    template; leave it at 0 for the identity 'covering'. The role must be a superuser: foreign
    keys are not checked row by row.
    """
    given = {"services": services, "templates": templates, "seed": seed}
    rows = {"live_rows": live_rows, "history_rows": history_rows, "null_share": null_share}
    with transaction(dsn) as cursor:
        cursor.execute("set local session_replication_role = replica")
        cursor.execute((_HERE / "fill.sql").read_text(), given | rows)
    with closing(psycopg2.connect(dsn)) as connection:
        connection.autocommit = True  # vacuum refuses a transaction
        connection.cursor().execute("vacuum (analyze) notifications, notification_history")


def set_identity(dsn: str, identity: Identity, columns: Sequence[str] = DIMENSIONS) -> None:
    """Give both tables the replica identity; 'covering' also makes the columns not null."""
    with transaction(dsn) as cursor:
        for table in TABLES:
            if identity == "full":
                cursor.execute(f"alter table {table} replica identity full")
                continue
            not_null = ", ".join(f"alter {column} set not null" for column in columns)
            index = f"{table}_identity"
            cursor.execute(f"alter table {table} {not_null}")
            cursor.execute(f"create unique index {index} on {table} (id, {', '.join(columns)})")
            cursor.execute(f"alter table {table} replica identity using index {index}")
