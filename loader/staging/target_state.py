"""What the target holds of a slot: position, facts, and what a loader last failed with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from psycopg2 import errors as pg
from psycopg2 import extensions, sql

from loader.staging.fact_states import read_fact_states
from loader.staging.records import SlotPosition, TargetState
from loader.staging.registration import read_registered
from waltally import lsn
from waltally.database import explained
from waltally.errors import NotSetUp

_SLOT_POSITION = """
slot_name,
system_identifier,
source_database,
start_lsn,
position_lsn,
stored_changes,
timeline,
timeline_began_lsn,
on_standby,
(
    select max(baseline.snapshot_lsn) from {0}.baseline
    where baseline.slot_name = slot_position.slot_name
)
"""

_STATE = f"""
select
    {_SLOT_POSITION},
    now(),
    moved_at,
    last_error,
    last_error_at,
    (
        select log.committed_at from {{0}}.change_log as log
        where log.slot_name = slot_position.slot_name
        order by log.slot_name desc, log.commit_lsn desc, log.ordinal desc
        limit 1
    )
from {{0}}.slot_position
where slot_name = %s
"""

SLOT_POSITIONS = f"select {_SLOT_POSITION} from {{0}}.slot_position"
"""Its rows are for `slot_position`. The schema is filled in; a condition may follow."""


def read_target_state(target: extensions.connection, schema: str, slot: str) -> TargetState | None:
    """Return what is stored, None where the slot has no row. Raises LoaderError."""
    with explained("target"), target, target.cursor() as cursor:
        cursor.execute(sql.SQL(_STATE).format(sql.Identifier(schema)), (slot,))
        row = cursor.fetchone()
        if row is None:
            return None
        registered = read_registered(cursor, schema, slot)
        facts = read_fact_states(cursor, schema, slot)
    *position, asked_at, moved_at, error, error_at, commit_at = row
    return TargetState(
        slot_position(position), asked_at, moved_at, error, error_at, commit_at, registered, facts
    )


def read_slot_position(
    connection: extensions.connection, schema: str, slot: str
) -> SlotPosition | None:
    """Return a slot's row in slot_position, None where it has none. Raises NotSetUp."""
    query = sql.SQL(f"{SLOT_POSITIONS} where slot_name = %s").format(sql.Identifier(schema))
    with explained("target"), connection, connection.cursor() as cursor:
        try:
            cursor.execute(query, (slot,))
        except pg.UndefinedTable:
            raise NotSetUp(
                f"Nothing is set up in schema {schema} of the target",
                "`loader setup`, then `spark-submit spark/seed.py`, then `dbt build`",
            ) from None
        except pg.UndefinedColumn:
            raise NotSetUp(
                f"The schema {schema} was made by an older loader", "run `loader setup`"
            ) from None
        row = cursor.fetchone()
    return None if row is None else slot_position(row)


def slot_position(row: Sequence[Any]) -> SlotPosition:
    """Return the record from a row of the statement SLOT_POSITIONS."""
    slot, system, database, start, position, changes, *rest = row
    timeline, began, on_standby, baseline = rest
    return SlotPosition(
        slot,
        system,
        database,
        lsn.parse(start),
        lsn.parse(position),
        changes,
        timeline,
        lsn.parse(began) if began else None,
        on_standby,
        lsn.parse(baseline) if baseline else None,
    )


def clear_last_error(target: extensions.connection, schema: str, slot: str) -> None:
    """Forget the last error, because setup found everything sound. Raises LoaderError."""
    update = sql.SQL(
        "update {}.slot_position set last_error = null, last_error_at = null "
        "where slot_name = %s and last_error is not null"
    ).format(sql.Identifier(schema))
    with explained("target"), target, target.cursor() as cursor:
        cursor.execute(update, (slot,))
