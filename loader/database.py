"""Plain connections to PostgreSQL, and its errors as sentences with a remedy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg2
from psycopg2 import errors as pg
from psycopg2 import extensions

from loader.errors import (
    CannotConnect,
    Interrupted,
    IsStandby,
    LoaderError,
    LoginRefused,
    MissingRight,
    NotSetUp,
    TargetFull,
)

_REFUSALS = (
    "authentication failed",
    "no password supplied",
    "no pg_hba.conf entry",
    "does not exist",
    "is not permitted to log in",
    "permission denied",
    "pg_hba.conf rejects",
    "certificate",
)


def connect(dsn: str, place: str) -> extensions.connection:
    """Open a connection; `place` is `source` or `target`, for the sentences.

    Raises LoginRefused or CannotConnect.
    """
    try:
        return psycopg2.connect(dsn)
    except psycopg2.Error as error:
        raise connection_error(str(error), place) from error


def connection_error(said: str, place: str) -> LoaderError:
    """Return the error for what libpq said when a connection failed."""
    said = " ".join(said.split())
    variables = f"LOADER_{place.upper()}_DSN and the PG* variables"
    if any(refusal in said for refusal in _REFUSALS):
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
    if "recovery is in progress" in said or "during recovery" in said:
        return standby()
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
        return connection_error(said, place)
    return LoaderError(f"The {place} reports {error.pgcode}: {said}")
