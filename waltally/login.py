"""How a session begins: with the pins, and told by SQLSTATE why the server refused it.

The drivers say no SQLSTATE of a login that failed, only the server's text, which may be in any
language; libpq's trace shows the code. libpq's own texts are in English in this process.
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
    """Return the connection string with every setting pinned, behind the options it has.

    They may also come from PGOPTIONS or a service file. What is pinned already stays as it is.
    """
    # Of a directory that is not there libpq resolves everything and connects to nothing.
    resolving = pq.PGconn.connect_start(
        make_conninfo(dsn, host="/nonexistent", hostaddr="").encode()
    )
    found = {option.keyword: option.val or b"" for option in resolving.info}
    resolving.finish()
    options = session_settings.options(found.get(b"options", b"").decode())
    return make_conninfo(dsn, options=options, client_encoding="UTF8")


def sqlstate(conninfo: str, said: str) -> str | None:
    """Return why the server refuses this login: asked by another try. None where it does not say.

    `said` is libpq's text of the first try. A server that answers by now refuses nothing.
    """
    if _SERVER_SAYS not in said:
        return None
    # A file in memory: the trace holds what was sent, the password's proof with it.
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
    """Return a driver's error in one line: of a failed connection all that libpq says.

    It tries every address of a host, and the last line may be the one that tells why. Of any other
    error the first line: details and context may quote a row.
    """
    text = str(error).strip()
    lines = text.splitlines()
    if "connection to server" in text or len(lines) < 2:
        return " ".join(text.split())
    return lines[0]
