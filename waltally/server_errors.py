"""What an error of a server or a driver means, judged by SQLSTATE. Pure: no driver.

Messages may be in any language, so text decides only where no language translates it: the names of
settings, libpq's own words (always English here) and texts of internal errors. A refused login is
the exception, because no driver gives its SQLSTATE: one in another language is waited for.
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
"""The role, its password, its rights, the database, pg_hba.conf, or an option of the session; then
what libpq says itself."""
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
    """All that was said, detail and hint included."""
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


def explain(error: ServerError, place: str) -> LoaderError:
    """Return the LoaderError for an error at `place`, `source` or `target`."""
    said, code = error.message, error.sqlstate
    if is_standby(error):
        return standby() if place == "source" else _read_only(said)
    if is_too_large(error):
        return RowTooLarge(f"The {place} cannot take a value of this size: {said}")
    if code in _NO_SUCH_CHARACTER:
        return EncodingUnfit(
            f"The {place}'s encoding has no character for what was sent: {said}",
            "name a target database in UTF8 or in the source's encoding",
        )
    if is_disk_full(error):
        return disk_full(said, place)
    if code == _MISSING_RIGHT:
        return MissingRight(
            f"The {place} denies a right: {said}",
            right_remedy(error.source_file),
        )
    if code in _MISSING_OBJECT:
        return NotSetUp(
            f"The staging schema is not complete: {said}",
            "`loader setup`, then `spark-submit spark/seed.py`, then `dbt build`",
            "the slot still holds what was not stored",
        )
    if code == _DEADLOCK:
        said = f"{said}. {error.detail}"
    if code in _TRANSACTION_BROKEN:
        return Interrupted(
            f"The {place} interrupted the transaction: {said}",
            "run again; nothing is lost, the loader goes on from its position",
        )
    if error.is_connection_lost and (code is None or _SESSION_ENDED.fullmatch(code)):
        return connection_lost(said, place)
    return LoaderError(f"The {place} reports {code}: {said}")


def is_disk_full(error: ServerError) -> bool:
    """Say whether the server could not write for want of space."""
    return error.sqlstate == _DISK_FULL


def disk_full(said: str, place: str) -> DiskFull:
    """Return the error for a server without disk space."""
    return DiskFull(
        f"The {place} has no disk space: {said}",
        f"free space on the {place}; nothing is lost, the loader goes on from its position",
    )


def right_remedy(source_file: str | None) -> str:
    """Return what helps where a right is missing; a policy is one that would hide rows."""
    if source_file != "rls.c":
        return "grant it as docs/roles.md says"
    return (
        "`alter role … bypassrls` for the role that reads, as all rows count; of a table that it "
        "owns, `alter table … no force row level security`"
    )


def login_error(said: str, place: str) -> LoaderError:
    """Return the error for what libpq said when a login failed.

    What is not known to be permanent is waited for.
    """
    # libpq's own hints, indented, ask what the remedy says.
    said = " ".join(" ".join(line for line in said.splitlines() if line[:1] != "\t").split())
    if "unsupported startup parameter" in said:
        return behind_a_proxy(place, said)
    if _LOGIN_REFUSED.search(said):
        return LoginRefused(
            f"The {place} refuses the login: {said}",
            "check role, password, database and TLS in "
            f"{_variables(place)}, and the server's pg_hba.conf",
        )
    return connection_lost(said, place)


def behind_a_proxy(place: str, said: str) -> LoginRefused:
    """Return the error for a proxy that gives a session to each transaction, as pgbouncer does."""
    return LoginRefused(
        f"The {place} is reached through a pooling proxy: {said}; "
        "locks, snapshots and slots belong to a session",
        f"let {_variables(place)} name the server itself",
    )


def connection_lost(said: str, place: str) -> CannotConnect:
    """Return the error for a server that is not reached, or no longer."""
    return CannotConnect(
        f"The {place} cannot be reached: {said}",
        f"check that the server runs and that {_variables(place)} name it",
    )


def _variables(place: str) -> str:
    return f"LOADER_{place.upper()}_DSN and the PG* variables"


def standby() -> IsStandby:
    """Return the error for a source that only follows another server."""
    return IsStandby(
        "The source is a standby, where only PostgreSQL 16 and later can decode",
        "name the primary in LOADER_SOURCE_DSN; after a failover, run again once it is promoted",
    )


def is_standby(error: ServerError) -> bool:
    """Say whether the server refused a write because it only follows another server.

    25006 says so. Two more codes also mean other things: for one the file of the server's source
    decides, for the other the text of an internal error. No language translates either.
    """
    return (
        error.sqlstate == "25006"
        or (error.sqlstate == "55000" and error.source_file == "xlogfuncs.c")
        or (error.sqlstate == "XX000" and "during recovery" in error.message)
    )


def is_too_large(error: ServerError) -> bool:
    """Say whether a value passes 1 GB, the most that a server holds in one piece.

    The text of the internal error is never translated.
    """
    return error.sqlstate == "54000" or (
        error.sqlstate == "XX000" and "invalid memory alloc request size" in error.message
    )


def _read_only(said: str) -> TargetReadOnly:
    return TargetReadOnly(
        f"The target takes no writes: {said}",
        "name the primary in LOADER_TARGET_DSN, or promote this server; the loader waits for it",
    )
