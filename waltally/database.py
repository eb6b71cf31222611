"""Connections to PostgreSQL, and its errors as sentences with a remedy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import Any, TypeVar

import psycopg2
from psycopg.conninfo import make_conninfo
from psycopg2 import extensions, sql

from waltally import server_errors, session_settings
from waltally.server_errors import ServerError
from waltally.settings import SlotSettings
from waltally.tables import Table

Row = tuple[Any, ...]
Values = Sequence[object] | Mapping[str, object] | None


class Connection(extensions.connection):
    """A connection in autocommit mode: a statement is a transaction, outside of `transaction`."""

    side = "target"
    """`source`, `target` or `standby`, for errors."""

    def ask(self, query: str, values: Values = None, *names: str) -> list[Row]:
        """Run a statement and return its rows. Raises LoaderError.

        `names` are the identifiers that replace {} in it.
        """
        statement: str | sql.Composable = query
        if names:
            # Where there are values, the driver would take the % of a name for a placeholder.
            escaped = names if values is None else [name.replace("%", "%%") for name in names]
            statement = sql.SQL(query).format(*map(sql.Identifier, escaped))
        with explained(self.side), self.cursor() as cursor:
            cursor.execute(statement, values)
            return cursor.fetchall() if cursor.description else []

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Run the block in one transaction. Raises LoaderError."""
        with explained(self.side), self:
            yield


class Target(Connection):
    """A session at the target that knows the staging schema and the slot it is for."""

    schema: str
    slot: str

    def table(self, name: str) -> str:
        """Return the qualified name of a table, view or function of the staging schema."""
        return Table(self.schema, name).quoted

    def ask_staging(self, query: str, values: Values = None, *names: str) -> list[Row]:
        """As `ask`, with the staging schema for the first {}. Raises LoaderError."""
        return self.ask(query, values, self.schema, *names)


_Kind = TypeVar("_Kind", bound=Connection)
_TargetKind = TypeVar("_TargetKind", bound=Target)


def connect(dsn: str, side: str) -> Connection:
    """Open a connection with every setting pinned; `side` is `source`, `target` or `standby`.

    Raises LoginRefused or CannotConnect.
    """
    return _open(Connection, dsn, side)


def open_target(kind: type[_TargetKind], dsn: str, settings: SlotSettings) -> _TargetKind:
    """As `connect`, for the slot and the staging schema of the settings."""
    target = _open(kind, dsn, "target")
    target.schema, target.slot = settings.schema, settings.slot
    return target


def connect_target(settings: SlotSettings) -> Target:
    """As `open_target`, with the connection string of the settings."""
    return open_target(Target, settings.target, settings)


def _open(kind: type[_Kind], dsn: str, side: str) -> _Kind:
    login = session_settings.pinned(dsn)
    try:
        connection = psycopg2.connect(login.dsn, connection_factory=kind)
    except psycopg2.Error as error:
        raise server_errors.login_error(str(error), side) from error
    connection.side = side
    connection.autocommit = True
    ((_, mark),) = connection.ask(session_settings.PIN_NEWER)
    if mark != login.mark:
        raise server_errors.lent_session(side)
    return connection


def replication_command(dsn: str, command: str) -> Row:
    """Run one command of the replication protocol at the source and return its first row.

    Raises LoaderError. The row is empty where the command returns none.
    """
    with closing(connect(make_conninfo(dsn, replication="database"), "source")) as connection:
        rows = connection.ask(command)
    return rows[0] if rows else ()


@contextmanager
def explained(side: str) -> Iterator[None]:
    """Raise the driver's errors as LoaderErrors, each with its remedy."""
    try:
        yield
    except psycopg2.Error as error:
        raise server_errors.explain(ServerError.of(error), side) from error
