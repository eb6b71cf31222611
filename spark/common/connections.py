"""Connections of Spark's driver, and the connection string that executors use."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import psycopg
from psycopg.conninfo import make_conninfo

from waltally import login, server_errors, session_settings
from waltally.errors import CannotConnect, Interrupted, MissingRight, NotSetUp
from waltally.settings import parse_conninfo

Connection = psycopg.Connection[tuple[object, ...]]

_ALIVE = {
    "connect_timeout": "15",
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
}


def connect(dsn: str, setting: str, work: str = "seed") -> Connection:
    """Open a session in autocommit mode. Raises CannotConnect, SettingError."""
    named = {"application_name": f"waltally {work}"}
    complete = make_conninfo("", **{**_ALIVE, **named, **parse_conninfo(dsn, setting)})
    try:
        connection = psycopg.connect(login.pinned(complete), autocommit=True)
        connection.execute(session_settings.PIN_NEWER)
    except psycopg.OperationalError as error:
        raise CannotConnect(
            f"cannot connect ({setting}): {login.one_line(error)}",
            f"check {setting}, PGHOST, PGPORT, PGDATABASE, PGUSER and PGPASSWORD or PGPASSFILE",
        ) from None
    return connection


def resolved(connection: Connection) -> str:
    """Return a connection string that works on other machines too.

    Environment variables, service files and password files exist on the driver alone. The host is
    the one that answered, so that a string of several hosts leads every reader to the same server.
    The session settings travel as `options`, with those that only newer servers know.
    """
    parts = {
        option.keyword.decode(): option.val.decode()
        for option in connection.pgconn.info
        if option.val is not None and option.val != option.compiled
    }
    for local in ("service", "servicefile", "passfile", "hostaddr", "target_session_attrs"):
        parts.pop(local, None)
    info = connection.info
    parts.update(host=info.host, port=str(info.port), dbname=info.dbname, user=info.user)
    if info.password:
        parts["password"] = info.password
    newer = connection.execute(session_settings.NEWER_TIMEOUTS).fetchall()
    parts["options"] = " ".join([*(f"-c {name}=0" for (name,) in newer), parts.get("options", "")])
    return make_conninfo("", **parts)


@contextlib.contextmanager
def exported_snapshot(connection: Connection) -> Iterator[str]:
    """Read within the block as of one moment; yield the snapshot's name, for other sessions."""
    with connection.transaction():
        connection.execute("set transaction isolation level repeatable read read only")
        row = connection.execute("select pg_export_snapshot()").fetchone()
        assert row is not None
        yield str(row[0])


@contextlib.contextmanager
def database_errors(work: str) -> Iterator[None]:
    """Turn the databases' errors in the block into LoaderErrors."""
    try:
        yield
    except (
        psycopg.errors.UndefinedTable,
        psycopg.errors.UndefinedFunction,
        psycopg.errors.InvalidSchemaName,
    ) as error:
        raise NotSetUp(
            f"a database lacks something: {login.one_line(error)}",
            "run `loader setup` with the same LOADER_SCHEMA and target",
        ) from None
    except psycopg.errors.InsufficientPrivilege as error:
        raise MissingRight(
            f"a right is missing: {error.diag.message_primary}",
            server_errors.right_remedy(error.diag.source_file),
        ) from None
    except psycopg.errors.DeadlockDetected as error:
        raise Interrupted(
            f"a server ended the {work}, which waited for a session that waited for it:"
            f" {' '.join((error.diag.message_detail or '').split())}",
            f"run the {work} again; the server's log has the statements of both",
        ) from None
    except psycopg.Error as error:
        raise CannotConnect(
            f"a server ended the {work}'s session: {login.one_line(error)}",
            f"run the {work} again once it answers",
        ) from None
