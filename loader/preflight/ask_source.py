"""Asks the source for what the checks need to know, in plain SQL."""

from __future__ import annotations

from psycopg2 import extensions

from loader.preflight.source_facts import SERVER, TABLE, ServerFacts, TableFacts, table_facts
from waltally.database import explained
from waltally.tables import Table


def ask_server(connection: extensions.connection, slot: str) -> ServerFacts:
    """Return the server's facts. Raises LoaderError."""
    with explained("source"), connection, connection.cursor() as cursor:
        cursor.execute(SERVER, (slot,))
        row = cursor.fetchone()
    assert row is not None
    return ServerFacts(*row)


def ask_table(connection: extensions.connection, table: Table) -> TableFacts:
    """Return a table's facts. Raises LoaderError."""
    with explained("source"), connection, connection.cursor() as cursor:
        cursor.execute(TABLE, (table.schema, table.name))
        return table_facts(table, cursor.fetchone())
