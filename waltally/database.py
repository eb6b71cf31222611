"""Plain connections to PostgreSQL, and its errors as sentences with a remedy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import psycopg2
from psycopg.conninfo import make_conninfo
from psycopg2 import extensions

from waltally import login, server_errors, session_settings
from waltally.errors import LoaderError
from waltally.server_errors import ServerError


def connect(dsn: str, place: str) -> extensions.connection:
    """Open a connection with every setting pinned; `place` is `source` or `target`.

    Raises LoginRefused or CannotConnect.
    """
    pinned = login.pinned(dsn)
    try:
        connection = psycopg2.connect(pinned)
    except psycopg2.Error as error:
        raise server_errors.login_error(str(error), place) from error
    with explained(place), connection, connection.cursor() as cursor:
        cursor.execute(session_settings.PIN_NEWER)
    return connection


def replication_command(dsn: str, command: str) -> tuple[Any, ...]:
    """Run one command of the replication protocol at the source and return its first row.

    Raises LoaderError. The row is empty where the command returns none.
    """
    with closing(connect(make_conninfo(dsn, replication="database"), "source")) as connection:
        connection.autocommit = True
        with explained("source"), connection.cursor() as cursor:
            cursor.execute(command)
            return (cursor.fetchone() or ()) if cursor.description else ()


@contextmanager
def explained(place: str) -> Iterator[None]:
    """Raise the driver's errors as LoaderErrors, each with its remedy."""
    try:
        yield
    except psycopg2.Error as error:
        raise explain(error, place) from error


def explain(error: psycopg2.Error, place: str) -> LoaderError:
    """Return the LoaderError for a driver's error at the source or the target."""
    return server_errors.explain(ServerError.of(error), place)
