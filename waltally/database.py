"""Plain connections to PostgreSQL, and its errors as sentences with a remedy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg2
from psycopg2 import errors as pg
from psycopg2 import extensions

from waltally import login, session_settings
from waltally.errors import (
    CannotConnect,
    EncodingUnfit,
    Interrupted,
    IsStandby,
    LoaderError,
    LoginRefused,
    MissingRight,
    NotSetUp,
    RowTooLarge,
    TargetFull,
    TargetReadOnly,
)


def connect(dsn: str, place: str) -> extensions.connection:
    """Open a connection with every setting pinned; `place` is `source` or `target`.

    Raises LoginRefused or CannotConnect.
    """
    pinned = login.pinned(dsn)
    try:
        connection = psycopg2.connect(pinned)
    except psycopg2.Error as error:
        said = str(error)
        raise connection_error(said, place, login.sqlstate(pinned, said)) from error
    with explained(place), connection, connection.cursor() as cursor:
        cursor.execute(session_settings.PIN_NEWER)
    return connection


def connection_error(said: str, place: str, sqlstate: str | None) -> LoaderError:
    """Return the error for what libpq said when a connection failed.

    `sqlstate` is why the server refused the login; None where it was not reached, or did not say.
    A failure that is not known for a refusal is waited for.
    """
    said = " ".join(said.split())
    variables = f"LOADER_{place.upper()}_DSN and the PG* variables"
    if login.is_login_refused(said, sqlstate):
        return LoginRefused(
            f"The {place} refuses the login: {said}",
            f"check role, password, database and TLS in {variables}, and the server's pg_hba.conf",
        )
    return CannotConnect(
        f"The {place} cannot be reached: {said}",
        f"check that the server runs and that {variables} name it",
    )


def standby() -> IsStandby:
    """Return the error for a source that only follows another server."""
    return IsStandby(
        "The source is a standby, where wal2json cannot decode",
        "name the primary in LOADER_SOURCE_DSN; after a failover, run again once it is promoted",
    )


@contextmanager
def explained(place: str) -> Iterator[None]:
    """Turn the driver's errors within into LoaderErrors, with what each calls for."""
    try:
        yield
    except psycopg2.Error as error:
        raise explain(error, place) from error


def explain(error: psycopg2.Error, place: str) -> LoaderError:
    """Return the LoaderError for a driver's error at the source or the target."""
    said = " ".join((error.diag.message_primary or str(error)).split())
    if is_standby(error):
        return standby() if place == "source" else _read_only(said)
    if is_too_large(error.pgcode, said):
        return RowTooLarge(f"The {place} cannot take a value of this size: {said}")
    if isinstance(error, (pg.UntranslatableCharacter, pg.CharacterNotInRepertoire)):
        return EncodingUnfit(
            f"The {place}'s encoding has no character for what was sent: {said}",
            "name a target database in UTF8 or in the source's encoding",
        )
    if isinstance(error, pg.DiskFull):
        return TargetFull(
            f"The {place} has no disk space: {said}",
            f"free space on the {place}; nothing is lost, the loader goes on from its position",
        )
    if isinstance(error, pg.InsufficientPrivilege):
        return MissingRight(
            f"The {place} denies a right: {said}",
            "grant it as the README's section on roles says",
        )
    if isinstance(error, (pg.UndefinedTable, pg.InvalidSchemaName, pg.UndefinedColumn)):
        return NotSetUp(
            f"The staging schema is not complete: {said}",
            "`loader setup`, then `spark-submit spark/seed.py`, then `dbt build`",
            "the slot still holds what was not stored",
        )
    if isinstance(
        error,
        (
            pg.LockNotAvailable,
            pg.DeadlockDetected,
            pg.SerializationFailure,
            pg.UniqueViolation,
            pg.QueryCanceled,
        ),
    ):
        return Interrupted(
            f"The {place} interrupted the transaction: {said}",
            "run again; nothing is lost, the loader goes on from its position",
        )
    # In a COPY a lost connection may also come as a bare DatabaseError without a code.
    lost = isinstance(error, (psycopg2.OperationalError, psycopg2.InterfaceError))
    lost = lost or (type(error) is psycopg2.DatabaseError and error.pgcode is None)
    if lost and (error.pgcode is None or error.pgcode[:3] in ("57P", "080", "53300")):
        return connection_error(said, place, error.pgcode)
    return LoaderError(f"The {place} reports {error.pgcode}: {said}")


def is_standby(error: psycopg2.Error) -> bool:
    """Say whether the server refused because it takes no writes, as it follows another one.

    Besides the code for a read-only transaction there are two that mean much else: there the file
    of the server's source tells it, and the text of an internal error; no language changes them.
    """
    return (
        isinstance(error, pg.ReadOnlySqlTransaction)
        or (error.pgcode == "55000" and error.diag.source_file == "xlogfuncs.c")
        or (error.pgcode == "XX000" and "during recovery" in (error.diag.message_primary or ""))
    )


def is_too_large(sqlstate: str | None, said: str) -> bool:
    """Say whether an error means that a value passes what the server can hold in one piece, 1 GB.

    The one with an internal code is never translated.
    """
    return sqlstate == "54000" or (
        sqlstate == "XX000" and "invalid memory alloc request size" in said
    )


def _read_only(said: str) -> TargetReadOnly:
    return TargetReadOnly(
        f"The target takes no writes: {said}",
        "name the primary in LOADER_TARGET_DSN, or promote this server; the loader waits for it",
    )
