"""What the target holds of a slot: position, models, and what a loader last failed with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from psycopg2 import errors as pg
from psycopg2 import extensions, sql

from loader.staging.records import ModelState, SlotPosition, TargetState
from loader.staging.watermarks import MORE_IS_STAGED
from waltally import lsn
from waltally.database import explained
from waltally.errors import NotSetUp
from waltally.tables import Table, tables_from_json

_SLOT_POSITION = """
slot_name,
system_identifier,
source_database,
start_lsn,
position_lsn,
registered_tables,
stored_changes
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
    ),
    (
        select seed.seed_id::text from {{0}}.historical_snapshot as seed
        where seed.slot_name = slot_position.slot_name
    )
from {{0}}.slot_position
where slot_name = %s
"""

SLOT_POSITIONS = f"select {_SLOT_POSITION} from {{0}}.slot_position"
"""Its rows are for `slot_position`. The schema is filled in; a condition may follow."""

_MAY_READ = "select has_table_privilege(to_regclass(%s), 'select')"
_REJECTED_IN_SEED = """
select coalesce(jsonb_object_agg(found.reason, found.row_count), '{{}}')
from (
    select reason, sum(row_count) as row_count
    from {}.historical_rejections
    where slot_name = %s
    group by reason
) as found
"""

LACKS_SEED = """
(
    mark.seed_id is null
    and mark.model_name like '%%.ft\\_service\\_stats'
    and exists (
        select from pg_class as c
        inner join pg_namespace as n on n.oid = c.relnamespace
        where n.nspname || '.' || c.relname = mark.model_name
    )
)
"""
"""SQL: whether the row `mark` of model_watermark is of a fact that needs a baseline and has none.

Decided by the name: a user's own fact needs none, and nothing in the target says which facts do.
"""

LISTED = """
select n.nspname
from pg_class as c
inner join pg_namespace as n on n.oid = c.relnamespace
inner join pg_attribute as a on a.attrelid = c.oid and a.attname = 'fact'
where
    c.relname = 'rejected_changes'
    and has_schema_privilege(n.oid, 'usage')
    and has_table_privilege(c.oid, 'select')
    and starts_with(%s, n.nspname || '.')
"""
"""SQL: the schema with the list of what a model rejected, where this role may read it."""

_REJECTED = "select count(*) from {}.rejected_changes where fact = %s and slot_name = %s"

_MODELS = f"""
select
    model_name,
    applied_lsn,
    moved_at,
    {MORE_IS_STAGED},
    -- A model that does not record its rejections has the end of its last batch there.
    case when rejected_lsn < applied_lsn then rejected_lsn end,
    left_out,
    seed_id::text,
    {LACKS_SEED}
from {{0}}.model_watermark as mark
where slot_name = %s
order by model_name
"""


def read_target_state(target: extensions.connection, schema: str, slot: str) -> TargetState | None:
    """Return what is stored, None where the slot has no row. Raises LoaderError."""
    with explained("target"), target, target.cursor() as cursor:
        cursor.execute(sql.SQL(_STATE).format(sql.Identifier(schema)), (slot,))
        row = cursor.fetchone()
        rejected_in_seed = _rejected_in_seed(cursor, schema, slot)
        cursor.execute(sql.SQL(_MODELS).format(sql.Identifier(schema)), (slot,))
        models = [
            ModelState(
                name,
                lsn.parse(applied),
                moved_at,
                is_behind,
                lsn.parse(rejected) if rejected else None,
                rejected_count(cursor, name, slot) if rejected else 0,
                left_out,
                seed_id,
                lacks_seed,
            )
            for (
                name, applied, moved_at, is_behind, rejected, left_out, seed_id, lacks_seed
            ) in cursor.fetchall()
        ]  # fmt: skip
    if row is None:
        return None
    *position, asked_at, moved_at, error, error_at, commit_at, seed_id = row
    return TargetState(
        slot_position(position),
        asked_at,
        moved_at,
        error,
        error_at,
        commit_at,
        seed_id,
        rejected_in_seed,
        models,
    )


def _rejected_in_seed(cursor: extensions.cursor, schema: str, slot: str) -> dict[str, int] | None:
    cursor.execute(_MAY_READ, (Table(schema, "historical_rejections").quoted,))
    if cursor.fetchall() != [(True,)]:
        return None
    cursor.execute(sql.SQL(_REJECTED_IN_SEED).format(sql.Identifier(schema)), (slot,))
    ((found,),) = cursor.fetchall()
    return dict(found)


def rejected_count(cursor: extensions.cursor, model: str, slot: str) -> int | None:
    """Return how many changes of a slot a model rejected; None where this role may not see that."""
    cursor.execute(LISTED, (model,))
    found = cursor.fetchone()
    if found is None:
        return None
    cursor.execute(sql.SQL(_REJECTED).format(sql.Identifier(found[0])), (model, slot))
    ((count,),) = cursor.fetchall()
    return int(count)


def read_slot_position(
    connection: extensions.connection, schema: str, slot: str
) -> SlotPosition | None:
    """Return a slot's row in slot_position, None where it has none. Raises NotSetUp."""
    query = sql.SQL(f"{SLOT_POSITIONS} where slot_name = %s").format(sql.Identifier(schema))
    with explained("target"), connection, connection.cursor() as cursor:
        try:
            cursor.execute(query, (slot,))
        except pg.UndefinedColumn:
            raise NotSetUp(
                f"The schema {schema} was made by an older loader", "run `loader setup`"
            ) from None
        row = cursor.fetchone()
    return None if row is None else slot_position(row)


def slot_position(row: Sequence[Any]) -> SlotPosition:
    """Return the record from a row of the statement SLOT_POSITIONS."""
    slot, system, database, start, position, tables, changes = row
    return SlotPosition(
        slot,
        system,
        database,
        lsn.parse(start),
        lsn.parse(position),
        tables_from_json(tables),
        changes,
    )


def clear_last_error(target: extensions.connection, schema: str, slot: str) -> None:
    """Forget the last error, because setup found everything sound. Raises LoaderError."""
    update = sql.SQL(
        "update {}.slot_position set last_error = null, last_error_at = null "
        "where slot_name = %s and last_error is not null"
    ).format(sql.Identifier(schema))
    with explained("target"), target, target.cursor() as cursor:
        cursor.execute(update, (slot,))
