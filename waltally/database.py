"""Connections to PostgreSQL, and its errors as sentences with a remedy."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from typing import IO, Any, TypeVar

import psycopg2
from psycopg.conninfo import make_conninfo
from psycopg2 import errors, extensions, sql

from waltally import server_errors, session_settings
from waltally.errors import Interrupted, LoaderError
from waltally.holder import HOLDER, Holder
from waltally.limits import limits
from waltally.server_errors import ServerError
from waltally.settings import SlotSettings
from waltally.tables import Table

Row = tuple[Any, ...]
Values = Sequence[object] | Mapping[str, object] | None


# A lock in this mode keeps readers out as soon as it is asked for.
_TABLE_HOLDERS = f"""
select {HOLDER}, c.oid::regclass::text, lock.granted
from pg_locks as lock
inner join pg_class as c on c.oid = lock.relation
inner join pg_stat_activity as session on session.pid = lock.pid
where
    lock.locktype = 'relation'
    and lock.mode = 'AccessExclusiveLock'
    and lock.database = (select oid from pg_database where datname = current_database())
    and c.relpersistence <> 't'
    and c.relkind in ('r', 'p', 'm')
    and lock.pid <> %s
order by lock.granted desc, c.relkind <> 'p', session.xact_start, 2
limit 1
"""


class Connection(extensions.connection):
    """A connection in autocommit mode: a statement is a transaction, outside of `transaction`."""

    side = "target"
    """`source` or `target`, for errors."""
    login: str
    """With a password, perhaps."""

    def ask(self, query: str, values: Values = None, *names: str) -> list[Row]:
        """Run a statement and return its rows. Raises LoaderError.

        `names` are the identifiers that replace {} in it.
        """
        statement: str | sql.Composable = query
        if names:
            # Where there are values, the driver would take the % of a name for a placeholder.
            escaped = names if values is None else [name.replace("%", "%%") for name in names]
            statement = sql.SQL(query).format(*map(sql.Identifier, escaped))
        with self.explained(), self.cursor() as cursor:
            cursor.execute(statement, values)
            return cursor.fetchall() if cursor.description else []

    def copy(self, statement: str, file: IO[bytes]) -> int:
        """Run a COPY between a file and the server; return how many rows. Raises LoaderError."""
        with self.explained(), self.cursor() as cursor:
            cursor.copy_expert(statement, file)
            return int(cursor.rowcount)

    def cut(self) -> None:
        """Make a query that waits for an answer fail; for another thread."""
        with suppress(psycopg2.Error, OSError), socket.socket(fileno=os.dup(self.fileno())) as end:
            end.shutdown(socket.SHUT_RDWR)

    def give_up_locks(self) -> None:
        """Wait for a lock for some seconds at most: for commands that only read."""
        self.ask("select set_config('lock_timeout', %s, false)", (f"{limits.read_lock}s",))

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Raise what the server refuses in the block as LoaderError."""
        try:
            yield
        except errors.LockNotAvailable as error:
            raise self._name_holder(
                server_errors.explain(ServerError.of(error), self.side)
            ) from error
        except psycopg2.Error as error:
            raise server_errors.explain(ServerError.of(error), self.side) from error

    def _name_holder(self, error: LoaderError) -> LoaderError:
        # Over another connection: the transaction that waited is broken now.
        with suppress(LoaderError), closing(_open(Connection, self.login, self.side)) as other:
            for named, table, is_granted in other.ask(_TABLE_HOLDERS, (self.info.backend_pid,)):
                holder, does = Holder(**named), "has locked" if is_granted else "waits to lock"
                return Interrupted(
                    f"{error}; the {holder} {does} {table}", holder.remedy(self.side)
                )
        return error

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Run the block in one transaction. Raises LoaderError."""
        with self.explained(), self:
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
    """Open a connection with every setting pinned; `side` is `source` or `target`.

    Raises LoginRefused, CannotConnect, IsStandby.
    """
    connection = _open(Connection, dsn, side)
    if side == "source" and connection.info.parameter_status("in_hot_standby") == "on":
        connection.close()
        raise server_errors.standby()
    return connection


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
    connection.side, connection.login = side, dsn
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
