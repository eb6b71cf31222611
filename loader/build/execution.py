"""Executes a model's plan: the statements of a run of dbt, in their order, on a connection."""

from __future__ import annotations

from psycopg2 import extensions

from loader.build.plan import Rows, Statements
from waltally import failpoints


class NotAsRecorded(Exception):
    """A query found something else than when dbt ran, so dbt would execute other statements."""


def execute(connection: extensions.connection, statements: Statements) -> None:
    """Execute the statements; the last of them commits.

    Raises NotAsRecorded or psycopg2.Error; nothing of the open transaction is kept then, once the
    caller closes the connection.
    """
    with connection.cursor() as cursor:
        for statement in statements:
            if statement.sql == "COMMIT":
                failpoints.reach("before-build-commit")
                connection.commit()
                continue
            cursor.execute(statement.sql)
            if cursor.description is not None and _texts(cursor) != statement.found:
                raise NotAsRecorded(statement.sql)
    if connection.info.transaction_status != extensions.TRANSACTION_STATUS_IDLE:
        raise NotAsRecorded("the run left a transaction open")


def _texts(cursor: extensions.cursor) -> Rows:
    return [[None if value is None else str(value) for value in row] for row in cursor.fetchall()]
