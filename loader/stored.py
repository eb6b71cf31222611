"""What the target holds of a slot: position, models, and what a loader last failed with."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from psycopg2 import extensions, sql

from loader import lsn
from loader.change_log import Record
from loader.database import explained
from loader.watermarks import MORE_IS_STAGED


@dataclass(frozen=True)
class Model:
    """A row of model_watermark."""

    name: str
    applied_lsn: int
    moved_at: datetime
    is_behind: bool
    """Whether more is staged than it has applied."""
    rejected_lsn: int | None
    """The newest change that it could not count; None where none is known."""


@dataclass(frozen=True)
class Stored:
    """All of it; times are of the target's clock, except the commit's, which the source sets."""

    record: Record
    asked_at: datetime
    moved_at: datetime
    stored_changes: int
    last_error: str | None
    last_error_at: datetime | None
    newest_commit_at: datetime | None
    models: list[Model]

    def age(self, moment: datetime) -> float:
        """Return how long ago the moment was when the target was asked, in seconds."""
        return max(0.0, round((self.asked_at - moment).total_seconds(), 1))


_POSITION = """
select
    system_identifier,
    source_database,
    start_lsn,
    position_lsn,
    now(),
    moved_at,
    stored_changes,
    last_error,
    last_error_at,
    (
        select log.committed_at from {0}.change_log as log
        where log.slot_name = slot_position.slot_name
        order by log.slot_name desc, log.commit_lsn desc, log.ordinal desc
        limit 1
    )
from {0}.slot_position
where slot_name = %s
"""

_MODELS = f"""
select
    model_name,
    applied_lsn,
    moved_at,
    {MORE_IS_STAGED},
    -- A model that keeps no note of what it could not count says the end of its last batch.
    case when rejected_lsn < applied_lsn then rejected_lsn end
from {{0}}.model_watermark as mark
where slot_name = %s
order by model_name
"""


def read(target: extensions.connection, schema: str, slot: str) -> Stored | None:
    """Return what is stored, None where the slot has no row. Raises LoaderError."""
    with explained("target"), target, target.cursor() as cursor:
        cursor.execute(sql.SQL(_POSITION).format(sql.Identifier(schema)), (slot,))
        row = cursor.fetchone()
        cursor.execute(sql.SQL(_MODELS).format(sql.Identifier(schema)), (slot,))
        models = [
            Model(
                name,
                lsn.parse(applied),
                moved_at,
                is_behind,
                lsn.parse(rejected) if rejected else None,
            )
            for name, applied, moved_at, is_behind, rejected in cursor
        ]
    if row is None:
        return None
    system, database, start, position, *times = row
    asked_at, moved_at, changes, error, error_at, commit_at = times
    record = Record(system, database, lsn.parse(start), lsn.parse(position))
    return Stored(record, asked_at, moved_at, changes, error, error_at, commit_at, models)
