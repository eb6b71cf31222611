"""Sessions of Spark's driver, and the connection string that executors use."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from psycopg import pq
from psycopg.conninfo import make_conninfo

from waltally import database, session_settings
from waltally.database import Connection
from waltally.errors import CannotConnect, Interrupted
from waltally.settings import complete_conninfo


def connect(dsn: str, place: str, work: str = "seed") -> Connection:
    """Open a session at the `source`, the `target` or the `standby`.

    Raises SettingError, CannotConnect, LoginRefused.
    """
    setting = f"LOADER_{place.upper()}_DSN"
    return database.connect(complete_conninfo(dsn, setting, work), place)


def resolved(connection: Connection) -> str:
    """Return a connection string that works on other machines too.

    Environment variables, service files and password files exist on the driver alone. The host is
    the one that answered, so that a string of several hosts leads every reader to the same server.
    The session settings travel as `options`, with those that only newer servers know.
    """
    compiled = {each.keyword.decode(): each.compiled for each in pq.Conninfo.get_defaults()}
    info = connection.info
    parts = {
        name: value
        for name, value in info.dsn_parameters.items()
        if name in compiled and value.encode() != compiled[name]
    }
    for local in ("service", "servicefile", "passfile", "hostaddr", "target_session_attrs"):
        parts.pop(local, None)
    parts.update(host=info.host, port=str(info.port), dbname=info.dbname, user=info.user)
    if info.password:
        parts["password"] = info.password
    newer = connection.ask(session_settings.NEWER_TIMEOUTS)
    parts["options"] = " ".join([*(f"-c {name}=0" for (name,) in newer), parts.get("options", "")])
    return make_conninfo("", **parts)


@contextlib.contextmanager
def exported_snapshot(connection: Connection) -> Iterator[str]:
    """Read within the block as of one moment; yield the snapshot's name, for other sessions."""
    connection.ask("begin isolation level repeatable read read only")
    try:
        ((name,),) = connection.ask("select pg_export_snapshot()")
        yield str(name)
    finally:
        # Where the session has ended, what the block raises says more.
        with contextlib.suppress(CannotConnect, Interrupted):
            connection.ask("rollback")
