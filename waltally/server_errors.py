"""What an error of a server or a driver means, judged by SQLSTATE. Pure: no driver.

Messages may be in any language, so text decides only where no language translates it: the names of
settings, libpq's own words (always English here) and texts of internal errors. A refused login is
the exception, because no driver gives its SQLSTATE. Where its text is not in English, the loader
tries again as after a lost connection.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from waltally.errors import (
    CannotConnect,
    DiskFull,
    EncodingUnfit,
    Interrupted,
    IsStandby,
    LoaderError,
    LoginRefused,
    MissingRight,
    NotSetUp,
    RowTooLarge,
    TargetReadOnly,
)

_LOGIN_REFUSED = re.compile(
    "authentication failed|(role|database) .* does not exist|not permitted to log in|pg_hba.conf"
    "|permission denied|configuration parameter|invalid value for parameter"
    "|no password supplied|certificate|channel binding|private key"
)
"""What servers say of role, password, rights, database, pg_hba.conf and the session's options; in
the last line what libpq says itself."""
_NO_SUCH_CHARACTER = ("22P05", "22021")
_DISK_FULL = "53100"
_MISSING_RIGHT = "42501"
_MISSING_OBJECT = ("42P01", "3F000", "42703", "42883")
"""A table, a schema, a column or a function."""
_DEADLOCK = "40P01"
_TRANSACTION_BROKEN = ("55P03", _DEADLOCK, "40001", "23505", "57014")
"""Lock timeout, deadlock, serialization failure, unique violation, canceled statement."""
_SESSION_ENDED = re.compile("57P..|080..|53300")
_LOST_KINDS = {"OperationalError", "InterfaceError"}


@dataclass(frozen=True)
class ServerError:
    """An error as any driver reports it."""

    message: str
    """The server's primary message, or the driver's text, in one line."""
    sqlstate: str | None = None
    """None where no server answered, or the driver does not say."""
    source_file: str | None = None
    """The file of the server's source that raised it."""
    is_connection_lost: bool = False
    """Whether the driver's kind of error is that of a connection that broke."""
    text: str = ""
    """The whole text, with detail and hint."""
    detail: str = ""
    """May quote a row."""

    @classmethod
    def of(cls, error: Exception) -> ServerError:
        """Return what a driver's exception says: one of psycopg2's, psycopg's or ADBC's."""
        diag = getattr(error, "diag", None)
        message = getattr(diag, "message_primary", None) or str(error)
        sqlstate = getattr(diag, "sqlstate", None) or getattr(error, "sqlstate", None)
        kinds = {kind.__name__ for kind in type(error).__mro__}
        # In a COPY psycopg2 may report a lost connection as a bare DatabaseError without a code.
        is_bare = type(error).__name__ == "DatabaseError" and sqlstate is None
        return cls(
            " ".join(message.split()),
            sqlstate,
            getattr(diag, "source_file", None),
            is_bare or bool(kinds & _LOST_KINDS),
            str(error),
            " ".join((getattr(diag, "message_detail", None) or "").split()),
        )


def explain(error: ServerError, side: str) -> LoaderError:
    """Return the LoaderError for an error of one side: `source` or `target`."""
    message, code = error.message, error.sqlstate
    if is_standby(error):
        return standby() if side == "source" else _read_only(message)
    if is_too_large(error):
        return RowTooLarge(f"The {side} cannot take a value of this size: {message}")
    if code in _NO_SUCH_CHARACTER:
        return EncodingUnfit(
            f"The {side}'s encoding has no character for what was sent: {message}",
            "name a target database in UTF8 or in the source's encoding",
        )
    if is_disk_full(error):
        return disk_full(message, side)
    if code == _MISSING_RIGHT:
        return MissingRight(
            f"The {side} denies a right: {message}",
            right_remedy(error.source_file),
        )
    if code in _MISSING_OBJECT:
        return NotSetUp(
            f"The staging schema is not complete: {message}",
            "`loader setup`, then `spark-submit spark/seed.py`, then `dbt build`",
            "the slot still holds what was not stored",
        )
    if code == _DEADLOCK:
        message = f"{message}. {error.detail}"
    if code in _TRANSACTION_BROKEN:
        return Interrupted(
            f"The {side} interrupted the transaction: {message}",
            "run again; nothing is lost, the loader goes on from its position",
        )
    if error.is_connection_lost and (code is None or _SESSION_ENDED.fullmatch(code)):
        return connection_lost(message, side)
    return LoaderError(f"The {side} reports {code}: {message}")


def is_disk_full(error: ServerError) -> bool:
    """Return whether the server could not write because its disk is full."""
    return error.sqlstate == _DISK_FULL


def disk_full(message: str, side: str) -> DiskFull:
    """Return the error for a server without disk space."""
    return DiskFull(
        f"The {side} has no disk space: {message}",
        f"free space on the {side}; nothing is lost, the loader goes on from its position",
    )


def right_remedy(source_file: str | None) -> str:
    """Return the remedy for a missing right; in `rls.c` a policy would hide rows."""
    if source_file != "rls.c":
        return "grant it as docs/roles.md says"
    return (
        "`alter role … bypassrls` for the role that reads, because all rows count; where it owns "
        "the table, `alter table … no force row level security`"
    )


def login_error(message: str, side: str) -> LoaderError:
    """Return the error for libpq's message about a failed login.

    The loader waits and tries again where the reason is not known to be permanent.
    """
    # Without libpq's own hints, which are indented: the remedy says the same.
    message = " ".join(" ".join(line for line in message.splitlines() if line[:1] != "\t").split())
    if "unsupported startup parameter" in message:
        return behind_a_proxy(side, message)
    if _LOGIN_REFUSED.search(message):
        return LoginRefused(
            f"The {side} refuses the login: {message}",
            "check role, password, database and TLS in "
            f"{_variables(side)}, and the server's pg_hba.conf",
        )
    return connection_lost(message, side)


def behind_a_proxy(side: str, message: str) -> LoginRefused:
    """Return the error for a proxy that gives a session to each transaction, as pgbouncer does."""
    return LoginRefused(
        f"The {side} is reached through a pooling proxy: {message}; "
        "locks, snapshots and slots belong to a session",
        f"let {_variables(side)} name the server itself",
    )


def lent_session(side: str) -> LoginRefused:
    """Return the error for a session that is not the one that we logged in to."""
    return behind_a_proxy(side, "the session lacks the settings that we logged in with")


def connection_lost(message: str, side: str) -> CannotConnect:
    """Return the error for a server that cannot be reached, or whose connection broke."""
    return CannotConnect(
        f"The {side} cannot be reached: {message}",
        f"check that the server runs and that {_variables(side)} name it",
    )


def _variables(side: str) -> str:
    return f"LOADER_{side.upper()}_DSN and the PG* variables"


def standby() -> IsStandby:
    """Return the error for a source that is a standby."""
    return IsStandby(
        "The source is a standby, where nothing is followed or counted",
        "name the primary in LOADER_SOURCE_DSN; after a failover, run again once it is promoted",
    )


def is_standby(error: ServerError) -> bool:
    """Return whether the server refused a write because it is a standby.

    25006 says so. Two other codes have more meanings: for one the file of the server's source code
    decides, for the other the text of an internal error, which is never translated.
    """
    return (
        error.sqlstate == "25006"
        or (error.sqlstate == "55000" and error.source_file == "xlogfuncs.c")
        or (error.sqlstate == "XX000" and "during recovery" in error.message)
    )


def is_too_large(error: ServerError) -> bool:
    """Return whether a value is larger than 1 GB, the most that a server holds in one piece.

    The text of the internal error is never translated.
    """
    return error.sqlstate == "54000" or (
        error.sqlstate == "XX000" and "invalid memory alloc request size" in error.message
    )


def _read_only(message: str) -> TargetReadOnly:
    return TargetReadOnly(
        f"The target takes no writes: {message}",
        "name the primary in LOADER_TARGET_DSN, or promote this server; the loader waits for it",
    )
