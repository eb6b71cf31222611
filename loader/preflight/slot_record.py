"""Writes the slot's row at the target: where its log begins and which tables it follows."""

from __future__ import annotations

from psycopg2 import extensions, sql
from psycopg2.extras import Json

from loader.preflight.slot_state import Server
from loader.preflight.table_identity import TableIdentities
from waltally import lsn
from waltally.database import explained
from waltally.settings import Settings
from waltally.tables import COUNTED, Table, format_tables, tables_to_json

# A new log may begin before the old one ended: on another cluster, or on one that was restored.
# Old rows at or after the new start are deleted so that they cannot mix with new ones.
_DELETE_FROM_START = (
    "delete from {}.change_log where slot_name = %(slot)s and commit_lsn >= %(start)s",
    "delete from {0}.historical_counts where slot_name in (select slot_name from "
    "{0}.historical_snapshot where slot_name = %(slot)s and snapshot_lsn >= %(start)s)",
    "delete from {}.historical_snapshot where slot_name = %(slot)s and snapshot_lsn >= %(start)s",
    # 0/0 is before the log's start: a build is refused until there is a new baseline.
    "update {}.model_watermark set applied_lsn = '0/0' "
    "where slot_name = %(slot)s and applied_lsn >= %(start)s",
)


def write_record(
    target: extensions.connection, settings: Settings, server: Server, start: int
) -> None:
    """Begin the log at `start`, in one transaction."""
    with explained("target"), target, target.cursor() as cursor:
        for statement in _DELETE_FROM_START:
            cursor.execute(
                sql.SQL(statement).format(sql.Identifier(settings.schema)),
                {"slot": settings.slot, "start": lsn.show(start)},
            )
        cursor.execute(
            sql.SQL(
                "insert into {}.slot_position (slot_name, system_identifier, source_database, "
                "start_lsn, position_lsn, registered_tables) values (%s, %s, %s, %s, %s, %s) "
                "on conflict (slot_name) do update set "
                "system_identifier = excluded.system_identifier, "
                "source_database = excluded.source_database, start_lsn = excluded.start_lsn, "
                "position_lsn = excluded.position_lsn, moved_at = now(), pruned_from_lsn = null, "
                "registered_tables = excluded.registered_tables"
            ).format(sql.Identifier(settings.schema)),
            (
                settings.slot,
                server.system_identifier,
                server.database,
                lsn.show(start),
                lsn.show(start),
                Json(tables_to_json(settings.tables)),
            ),
        )


def note_tables(
    settings: Settings, found: TableIdentities, target: extensions.connection, *, anew: bool = False
) -> None:
    """Write down which tables are counted; unless `anew`, only where that is not known yet."""
    with explained("target"), target, target.cursor() as cursor:
        cursor.execute(
            sql.SQL(
                "update {}.slot_position set source_tables = %s "
                "where slot_name = %s and (%s or source_tables is null)"
            ).format(sql.Identifier(settings.schema)),
            (Json(found), settings.slot, anew),
        )


def register(
    settings: Settings, target: extensions.connection, registered: tuple[Table, ...]
) -> list[str]:
    """Write down which tables are only logged now, where that has changed; return what to say."""
    if set(registered) == set(settings.tables):
        return []
    with explained("target"), target, target.cursor() as cursor:
        cursor.execute(
            sql.SQL(
                "update {}.slot_position set registered_tables = %s where slot_name = %s"
            ).format(sql.Identifier(settings.schema)),
            (Json(tables_to_json(settings.tables)), settings.slot),
        )
    return [
        f"registered {format_tables(settings.tables)}; a loader that runs must be started again",
        *logged_only(settings),
    ]


def logged_only(settings: Settings) -> list[str]:
    """Return a sentence for each table that is logged and not counted."""
    return [
        f"{table} is logged and not counted: only the first two tables are"
        for table in settings.tables[COUNTED:]
    ]
