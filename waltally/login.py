"""Logging in: every setting is pinned, and a refused login gets its SQLSTATE.

The drivers give no SQLSTATE for a failed login, only the server's text, which may be in any
language. libpq's trace shows the code. libpq's own texts are always English in this process.
"""

from __future__ import annotations

import os
import re
import select
import time

from psycopg import pq
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from waltally import session_settings

_CODE = re.compile(rb'\tErrorResponse\t.*? C "([0-9A-Z]{5})"')
_SERVER_SAYS = ":  "
"""What libpq prints between the severity and the text of a server's message, and only there."""
_SECONDS = 15.0


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


def sqlstate(conninfo: str, said: str) -> str | None:
    """Return the SQLSTATE with which the server refuses this login, from a second try.

    `said` is libpq's text of the first try. None where the server gave no code, or lets us in now.
    """
    if _SERVER_SAYS not in said:
        return None
    # A file in memory: the trace holds what was sent, also the proof of the password.
    trace = os.memfd_create("login")
    attempt = pq.PGconn.connect_start(conninfo.encode())
    try:
        attempt.trace(trace)
        _finish(attempt, conninfo)
        attempt.untrace()
        found: list[bytes] = _CODE.findall(os.pread(trace, 1 << 20, 0))
        refused = attempt.status != pq.ConnStatus.OK and found
        return found[-1].decode() if refused else None
    finally:
        attempt.finish()
        os.close(trace)


def _finish(attempt: pq.abc.PGconn, conninfo: str) -> None:
    seconds = conninfo_to_dict(conninfo).get("connect_timeout") or _SECONDS
    deadline = time.monotonic() + float(seconds)
    ended = (pq.PollingStatus.OK, pq.PollingStatus.FAILED)
    state: int = pq.PollingStatus.WRITING
    while attempt.status != pq.ConnStatus.BAD and time.monotonic() < deadline:
        sockets = [attempt.socket]
        if state == pq.PollingStatus.READING:
            select.select(sockets, [], [], 1.0)
        else:
            select.select([], sockets, [], 1.0)
        state = attempt.connect_poll()
        if state in ended:
            return


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
