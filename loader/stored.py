"""What the target holds of a slot: position, models, and what a loader last failed with."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from psycopg2 import extensions, sql

from loader import lsn
from loader.change_log import Record
from loader.database import explained
from loader.tables import Table
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
    rejected_count: int | None
    """How many changes it could not count; None where this role may not read the list."""
    left_out: dict[str, int] | None
    """By part, the rows that belong to no group as a dimension is null; None where unknown."""
    seed_id: str | None
    """The seed that it was built on; None where it was built on none."""
    lacks_seed: bool
    """Whether it shows only a part: it stands on no seed although a seed feeds it."""


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
    seed_id: str | None
    """The newest seed of the slot; None where none was ever taken."""
    rejected_in_seed: dict[str, int] | None
    """By reason, the rows that this seed could not count; None where this role may not read it."""
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
    ),
    (
        select seed.seed_id::text from {0}.historical_snapshot as seed
        where seed.slot_name = slot_position.slot_name
    )
from {0}.slot_position
where slot_name = %s
"""

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
"""SQL: whether the row `mark` of model_watermark is of a fact that a seed feeds and has none.

By name: a fact of one's own stands on no seed by design, and nothing in the target says so.
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
    -- A model that keeps no note of what it could not count says the end of its last batch.
    case when rejected_lsn < applied_lsn then rejected_lsn end,
    left_out,
    seed_id::text,
    {LACKS_SEED}
from {{0}}.model_watermark as mark
where slot_name = %s
order by model_name
"""


def read(target: extensions.connection, schema: str, slot: str) -> Stored | None:
    """Return what is stored, None where the slot has no row. Raises LoaderError."""
    with explained("target"), target, target.cursor() as cursor:
        cursor.execute(sql.SQL(_POSITION).format(sql.Identifier(schema)), (slot,))
        row = cursor.fetchone()
        rejected_in_seed = _rejected_in_seed(cursor, schema, slot)
        cursor.execute(sql.SQL(_MODELS).format(sql.Identifier(schema)), (slot,))
        models = [
            Model(
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
    system, database, start, position, *times = row
    asked_at, moved_at, changes, error, error_at, commit_at, seed_id = times
    record = Record(system, database, lsn.parse(start), lsn.parse(position))
    return Stored(
        record,
        asked_at,
        moved_at,
        changes,
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
    """Return how many changes of a slot a model could not count; None where we may not see that."""
    cursor.execute(LISTED, (model,))
    found = cursor.fetchone()
    if found is None:
        return None
    cursor.execute(sql.SQL(_REJECTED).format(sql.Identifier(found[0])), (model, slot))
    ((count,),) = cursor.fetchall()
    return int(count)
