"""Asks the source for what the checks need to know, in plain SQL."""

from __future__ import annotations

from collections.abc import Sequence

from psycopg2 import extensions

from loader.preflight.server_facts import SERVER, ServerFacts
from loader.preflight.table_facts import TableFacts, table_facts, table_query
from waltally.database import explained
from waltally.facts import Fact
from waltally.tables import Table


def ask_server(connection: extensions.connection, slot: str) -> ServerFacts:
    """Return the server's facts. Raises LoaderError."""
    with explained("source"), connection, connection.cursor() as cursor:
        cursor.execute(SERVER, (slot,))
        row = cursor.fetchone()
    assert row is not None
    return ServerFacts(*row)


def ask_table(
    connection: extensions.connection,
    table: Table,
    facts: Sequence[Fact],
    root: Table | None = None,
) -> TableFacts:
    """Return what there is to know of a table that the facts need, or of a leaf of their `root`.

    Raises LoaderError.
    """
    with explained("source"), connection, connection.cursor() as cursor:
        cursor.execute(table_query(table, facts, root))
        return table_facts(table, cursor.fetchone())
