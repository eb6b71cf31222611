"""Sessions at a database that live as long as the process: an executor's, or the driver's.

The driver asks the server for all of its types at each login, which costs more than a small batch.
"""

from __future__ import annotations

import atexit
import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from adbc_driver_postgresql.dbapi import Connection

_idle: dict[str, Connection] = {}


@atexit.register
def close() -> None:
    """End the sessions that nothing uses."""
    while _idle:
        _close(_idle.popitem()[1])


@contextlib.contextmanager
def session(conninfo: str) -> Iterator[Connection]:
    """Yield a session for one transaction, which the block commits or which is rolled back."""
    from adbc_driver_postgresql import dbapi

    connection = _idle.pop(conninfo, None)
    if connection is not None and not _is_alive(connection):
        connection = None
    if connection is None:
        connection = dbapi.connect(conninfo)
    try:
        yield connection
        connection.rollback()
    except BaseException:
        _close(connection)
        raise
    _close(_idle.get(conninfo))
    _idle[conninfo] = connection


def _is_alive(connection: Connection) -> bool:
    from adbc_driver_postgresql import dbapi

    try:
        with connection.cursor() as cursor:
            cursor.execute("select 1")
            cursor.fetchall()
    except (dbapi.Error, pa.ArrowException, OSError):
        _close(connection)
        return False
    return True


def _close(connection: Connection | None) -> None:
    from adbc_driver_postgresql import dbapi

    if connection is not None:
        with contextlib.suppress(dbapi.Error, pa.ArrowException, OSError):
            connection.close()
