"""What the target says of a slot's change log, and what it is told of the archive."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

import psycopg
from common.connections import Connection
from common.errors import AnotherArchive, ArchiveIncomplete
from psycopg import sql

from archiving.manifests import Contents, Origin
from archiving.settings import ArchiveSettings
from waltally import lsn
from waltally.errors import AnotherCluster, CannotConnect, MissingRight, NotSetUp, SourceBehind
from waltally.login import one_line
from waltally.tables import COUNTED, Table, tables_from_json

_NEW_PLACE = "archive to a new place: give another --to"


@dataclass(frozen=True)
class Log:
    """The slot's row: the log holds every change with start_lsn <= commit_lsn < position_lsn."""

    origin: Origin
    start_lsn: int
    position_lsn: int
    tables: tuple[Table, ...]
    """The live table and its archive."""


@contextlib.contextmanager
def asked() -> Iterator[None]:
    """Turn the target's errors within into LoaderErrors."""
    try:
        yield
    except (
        psycopg.errors.UndefinedTable,
        psycopg.errors.UndefinedFunction,
        psycopg.errors.InvalidSchemaName,
    ) as error:
        raise NotSetUp(
            f"the target's staging schema lacks something: {one_line(error)}",
            "run `loader setup` with the same LOADER_SCHEMA and target",
        ) from None
    except psycopg.errors.InsufficientPrivilege as error:
        raise MissingRight(
            f"the target refuses: {one_line(error)}",
            "grant it to the role, or use the role that ran `loader setup`",
        ) from None
    except psycopg.OperationalError as error:
        raise CannotConnect(
            f"the connection to the target broke: {one_line(error)}", "run it again"
        ) from None


def be_alone(target: Connection, settings: ArchiveSettings) -> None:
    """Be the slot's only archive for as long as the session lives. Raises AnotherArchive."""
    row = target.execute(
        "select pg_try_advisory_lock(hashtextextended(%s, 0))",
        (f"waltally archive {settings.schema} {settings.slot}",),
    ).fetchone()
    if row != (True,):
        raise AnotherArchive(
            f"another archive of slot {settings.slot} is running", "let it end, then run it again"
        )


def read(target: Connection, settings: ArchiveSettings) -> Log:
    """Return the slot's row. Raises NotSetUp where there is none."""
    row = target.execute(
        sql.SQL(
            "select system_identifier, source_database, start_lsn::text, position_lsn::text,"
            " registered_tables"
            " from {} where slot_name = %s"
        ).format(sql.Identifier(settings.schema, "slot_position")),
        (settings.slot,),
    ).fetchone()
    if row is None:
        raise NotSetUp(
            f"slot {settings.slot} has no row in {settings.schema}.slot_position",
            "run `loader setup` with the same LOADER_SLOT, LOADER_SCHEMA and target",
        )
    system, database, start, position, tables = row
    counted = tables_from_json(cast("list[list[str]]", tables))[:COUNTED]
    origin = Origin(str(system), str(database))
    return Log(origin, lsn.parse(str(start)), lsn.parse(str(position)), counted)


def fits(log: Log, held: Contents) -> bool:
    """Say whether the archive can be of this log."""
    return held.origins <= {log.origin} and held.to_lsn <= log.position_lsn


def check(log: Log, held: Contents, noted: int | None, location: str) -> None:
    """Raise unless the log goes on where the archive ends.

    `noted` is the position from which on the archive held the log when it was last written.
    """
    if others := held.origins - {log.origin}:
        other = min(others, key=str)
        raise AnotherCluster(
            f"{location} holds changes of database {other.source_database} of cluster"
            f" {other.system_identifier}; the change log is of {log.origin.source_database} of"
            f" {log.origin.system_identifier}",
            _NEW_PLACE,
        )
    if not held.slices:
        if noted is not None and noted < log.start_lsn:
            raise ArchiveIncomplete(
                f"{location} held the changes from {lsn.show(noted)} on and is empty now; the"
                f" change log starts at {lsn.show(log.start_lsn)}",
                f"bring the files back from a copy, or {_NEW_PLACE}",
            )
    elif held.to_lsn > log.position_lsn:
        raise SourceBehind(
            f"{location} holds changes up to {lsn.show(held.to_lsn)}, the change log only up to"
            f" {lsn.show(log.position_lsn)}: the target was restored, or the slot made anew",
            _NEW_PLACE,
        )
    elif held.to_lsn < log.start_lsn:
        raise ArchiveIncomplete(
            f"{location} ends at {lsn.show(held.to_lsn)} and the change log starts at"
            f" {lsn.show(log.start_lsn)}: the changes between are in neither",
            _NEW_PLACE,
        )


def noted(target: Connection, settings: ArchiveSettings, location: str) -> int | None:
    """Return from where on the target believes the log to be at the location, if it does."""
    row = target.execute(
        sql.SQL("select from_lsn::text from {} where slot_name = %s and location = %s").format(
            sql.Identifier(settings.schema, "archive_position")
        ),
        (settings.slot, location),
    ).fetchone()
    return None if row is None else lsn.parse(str(row[0]))


def note(target: Connection, settings: ArchiveSettings, location: str, held: Contents) -> None:
    """Tell `loader prune` what the archive holds, also where that has become less."""
    positions = {
        "slot": settings.slot,
        "location": location,
        "begin": lsn.show(held.from_lsn),
        "end": lsn.show(held.to_lsn),
    }
    table = sql.Identifier(settings.schema, "archive_position")
    if not held.slices:
        target.execute(
            sql.SQL(
                "update {} set archived_lsn = from_lsn"
                " where slot_name = %(slot)s and location = %(location)s"
            ).format(table),
            positions,
        )
        return
    target.execute(
        sql.SQL(
            "insert into {} as stored (slot_name, location, from_lsn, archived_lsn)"
            " values (%(slot)s, %(location)s, %(begin)s, %(end)s)"
            " on conflict (slot_name, location) do update set from_lsn = excluded.from_lsn,"
            " archived_lsn = excluded.archived_lsn, archived_at = now()"
            " where (stored.from_lsn, stored.archived_lsn)"
            " is distinct from (excluded.from_lsn, excluded.archived_lsn)"
        ).format(table),
        positions,
    )
