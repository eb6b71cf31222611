"""Logging in with every setting pinned, and what a driver says of a failure in one line."""

from __future__ import annotations

from psycopg import pq
from psycopg.conninfo import make_conninfo

from waltally import session_settings


def pinned(dsn: str) -> str:
    """Return the connection string with every setting pinned, after the options that it has.

    Options may also come from PGOPTIONS or a service file. A pinned string stays as it is.
    """
    # With a directory that does not exist libpq resolves all options and connects to nothing.
    resolving = pq.PGconn.connect_start(
        make_conninfo(dsn, host="/nonexistent", hostaddr="").encode()
    )
    found = {option.keyword: option.val or b"" for option in resolving.info}
    resolving.finish()
    options = session_settings.options(found.get(b"options", b"").decode())
    return make_conninfo(dsn, options=options, client_encoding="UTF8")


def one_line(error: Exception) -> str:
    """Return a driver's error in one line.

    Of a failed connection that is the whole text: libpq tries every address of a host, and the
    reason may be in the last line. Of any other error it is the first line: details and context
    may quote a row.
    """
    text = str(error).strip()
    lines = text.splitlines()
    if "connection to server" in text or len(lines) < 2:
        return " ".join(text.split())
    return lines[0]
