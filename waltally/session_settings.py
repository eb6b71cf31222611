"""Settings that every session pins: no `alter role … set` or `alter database … set` counts.

A setting that the client sends with the login (libpq's `options`) counts before
the first statement and beats what a role, a database or the server's configuration says.

Not pinned, because they change no number and stop nothing: memory, planner, parallel and I/O
settings, tablespaces, TOAST compression, `plan_cache_mode`, `xmlbinary`, `lc_time`,
`lc_numeric`, `backslash_quote` (of no use under standard_conforming_strings) and
`wal_sender_timeout` (the loader reads it and answers in time).
`session_replication_role` and `lc_messages` may be set by superusers only; the staging tables have
no triggers, and errors are judged by SQLSTATE. `synchronous_commit` is set where rows are written.
"""

from __future__ import annotations

import re
import secrets
from typing import NamedTuple

from psycopg import pq
from psycopg.conninfo import make_conninfo

ROLE = "-c role=none"
"""Placed before the user's options so that their `role` still applies."""

_VALUES = {
    # They would end a session that works long or waits for work.
    "statement_timeout": "0",
    "lock_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    "exit_on_error": "off",
    # They decide what a transaction sees and may do.
    "default_transaction_isolation": "read committed",
    "default_transaction_read_only": "off",
    "default_transaction_deferrable": "off",
    # They decide what a statement means. Names are qualified; pg_temp last hides nothing.
    "search_path": "pg_catalog,pg_temp",
    "standard_conforming_strings": "on",
    "transform_null_equals": "off",
    "quote_all_identifiers": "off",
    # With `on`, a policy would hide rows silently; with `off` that is an error.
    "row_security": "off",
    "default_table_access_method": "heap",
    # NULL in an array's text, and IST in `at time zone`.
    "array_nulls": "on",
    "timezone_abbreviations": "Default",
    # They decide how values are spelled: in the stream, the seed and the models alike.
    "DateStyle": "ISO,YMD",
    "IntervalStyle": "postgres",
    "TimeZone": "UTC",
    "extra_float_digits": "1",
    "bytea_output": "hex",
    "lc_monetary": "C",
    # With `document` a fragment is no xml.
    "xmloption": "content",
    # It compiles short statements over many relations for seconds, also while others wait for us.
    "jit": "off",
    # wal2json reports what it drops as a warning and nowhere else.
    "client_min_messages": "warning",
}

PINS = " ".join(f"-c {name}={value.replace(' ', chr(92) + ' ')}" for name, value in _VALUES.items())
"""As libpq's `options`; every supported server knows them and any role may set them."""

PIN_NEWER = """
select
    count(set_config(name, case vartype when 'string' then '' else '0' end, false)),
    current_setting('waltally.login', true)
from pg_settings
where name in ('idle_session_timeout', 'transaction_timeout', 'restrict_nonsystem_relation_kind')
"""
"""Turns off settings that older servers do not know, and gives the mark of the session's login.

The mark is a setting of our own. A proxy may drop the settings of a login or lend the session of
another one, and every setting that a server knows may have the pinned value by itself.
"""

_MARK = re.compile(r"-c waltally\.login=\w+ ?")

NEWER_TIMEOUTS = """
select name from pg_settings where name in ('idle_session_timeout', 'transaction_timeout')
"""
"""Gives those of them that end a session and that this server knows."""


class Login(NamedTuple):
    """A connection string with every setting pinned, and the mark that its session must have."""

    dsn: str
    mark: str


def options(users: str) -> str:
    """Return libpq's `options`: the user's own, overridden by the pins."""
    return users if users.endswith(PINS) else " ".join(filter(None, (ROLE, users, PINS)))


def without_mark(users: str) -> str:
    """Return libpq's `options` of a session without its mark, for more than one session."""
    return _MARK.sub("", users)


def pinned(dsn: str) -> Login:
    """Return the connection string with every setting pinned, after the options that it has.

    Options may also come from PGOPTIONS or a service file. A pinned string keeps its pins.
    """
    # With a directory that does not exist, libpq resolves all options without connecting.
    resolving = pq.PGconn.connect_start(
        make_conninfo(dsn, host="/nonexistent", hostaddr="").encode()
    )
    resolved = {option.keyword: option.val or b"" for option in resolving.info}
    resolving.finish()
    mark = secrets.token_hex(8)
    users = without_mark(resolved.get(b"options", b"").decode())
    all_options = f"-c waltally.login={mark} {options(users)}"
    return Login(make_conninfo(dsn, options=all_options, client_encoding="UTF8"), mark)
