"""Writes the slot's row at the target: where its log begins."""

from __future__ import annotations

from psycopg2 import extensions, sql

from loader.preflight.slot_state import Server
from waltally import lsn
from waltally.settings import Settings

# A new log may begin before the old one ended: on another cluster, or on one that was restored.
# Old rows at or after the new start are deleted so that they cannot mix with new ones.
_DELETE_FROM_START = (
    "delete from {}.logged_table where slot_name = %(slot)s",
    "delete from {}.change_log where slot_name = %(slot)s and commit_lsn >= %(start)s",
    *(
        f"delete from {{0}}.{table} where (slot_name, fact_name) in (select slot_name, fact_name "
        "from {0}.baseline where slot_name = %(slot)s and snapshot_lsn >= %(start)s)"
        for table in ("baseline_rejection", "baseline_group", "baseline")
    ),
    # What the same cluster deleted there it has again. Positions of another cluster mean nothing.
    "delete from {0}.archived_delete using {0}.slot_position as log "
    "where archived_delete.slot_name = %(slot)s and log.slot_name = %(slot)s "
    "and commit_lsn >= %(start)s and log.system_identifier = %(system)s",
    "update {}.archived_delete set commit_lsn = %(start)s::pg_lsn - 1 "
    "where slot_name = %(slot)s and commit_lsn >= %(start)s",
    # 0/0 is before the log's start: a build is refused until there is a new baseline.
    "update {}.model_watermark set applied_lsn = '0/0' "
    "where slot_name = %(slot)s and applied_lsn >= %(start)s",
    # A reader of somebody's own finds that the log starts later than where it is.
    "update {}.reader_position set applied_lsn = '0/0' "
    "where slot_name = %(slot)s and applied_lsn >= %(start)s",
)


def write_record(cursor: extensions.cursor, settings: Settings, server: Server, start: int) -> None:
    """Begin the log at `start`, in the transaction of the cursor."""
    timeline = server.timeline
    began_at = None if timeline is None else timeline.began_at
    for statement in _DELETE_FROM_START:
        cursor.execute(
            sql.SQL(statement).format(sql.Identifier(settings.schema)),
            {
                "slot": settings.slot,
                "start": lsn.show(start),
                "system": server.system_identifier,
            },
        )
    cursor.execute(
        sql.SQL(
            "insert into {}.slot_position (slot_name, system_identifier, source_database, "
            "timeline, timeline_began_lsn, start_lsn, position_lsn) "
            "values (%s, %s, %s, %s, %s, %s, %s) "
            "on conflict (slot_name) do update set "
            "system_identifier = excluded.system_identifier, "
            "source_database = excluded.source_database, timeline = excluded.timeline, "
            "timeline_began_lsn = excluded.timeline_began_lsn, "
            "start_lsn = excluded.start_lsn, "
            "position_lsn = excluded.position_lsn, moved_at = now(), pruned_from_lsn = null"
        ).format(sql.Identifier(settings.schema)),
        (
            settings.slot,
            server.system_identifier,
            server.database,
            None if timeline is None else timeline.number,
            None if began_at is None else lsn.show(began_at),
            lsn.show(start),
            lsn.show(start),
        ),
    )
