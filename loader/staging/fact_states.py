"""The facts of a slot as the target holds them: relation, watermark, baseline, rejections."""

from __future__ import annotations

from typing import Any

from psycopg2 import extensions, sql

from loader.staging.records import Baseline, FactState, Registration, Watermark
from waltally import lsn
from waltally.tables import Table

_FACTS = """
with known as (
    select *, fact.relation_schema || '.' || fact.relation_name as relation
    from {0}.fact where fact.slot_name = %(slot)s
),

marks as (
    select * from {0}.model_watermark as mark where mark.slot_name = %(slot)s
)

select
    coalesce(known.fact_name, mark.model_name) as name,
    coalesce(known.relation, mark.model_name) as relation,
    (
        select greatest(pg_stat_get_live_tuples(c.oid), c.reltuples::bigint, 0)
        from pg_class as c
        inner join pg_namespace as n on n.oid = c.relnamespace
        where n.nspname || '.' || c.relname = coalesce(known.relation, mark.model_name)
        limit 1
    ),
    mark.applied_lsn,
    mark.moved_at,
    (
        select staged.staged_at from {0}.change_log as staged
        where staged.slot_name = mark.slot_name and staged.commit_lsn >= mark.applied_lsn
        order by staged.slot_name, staged.commit_lsn, staged.ordinal
        limit 1
    ),
    (
        select applied.committed_at from {0}.change_log as applied
        where applied.slot_name = mark.slot_name and applied.commit_lsn < mark.applied_lsn
        order by applied.slot_name desc, applied.commit_lsn desc, applied.ordinal desc
        limit 1
    ),
    -- A model that does not record its rejections has the end of its last batch there.
    case when mark.rejected_lsn < mark.applied_lsn then mark.rejected_lsn end,
    mark.left_out,
    mark.baseline_id::text,
    coalesce(mark.declaration = known.declaration, known.fact_name is null),
    baseline.baseline_id::text,
    baseline.snapshot_lsn,
    baseline.counted_at,
    baseline.declaration = known.declaration
from known
full join marks as mark on mark.model_name = known.relation
left join {0}.baseline
    on baseline.slot_name = known.slot_name and baseline.fact_name = known.fact_name
order by name, relation
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

_REJECTED = """
select reason, count(*) from {}.rejected_changes where fact = %s and slot_name = %s
group by reason order by reason
"""

_MAY_READ = "select has_table_privilege(to_regclass(%s), 'select')"
_REJECTED_ROWS = """
select fact_name, reason, sum(row_count)::bigint from {}.baseline_rejection
where slot_name = %s group by fact_name, reason order by fact_name, reason
"""


def read_fact_states(
    cursor: extensions.cursor, schema: str, slot: str, registered: Registration
) -> list[FactState]:
    """Return the registered facts of a slot and further relations that are built from it."""
    rejected = _rejected_rows(cursor, schema, slot)
    cursor.execute(sql.SQL(_FACTS).format(sql.Identifier(schema)), {"slot": slot})
    return [_state(cursor, slot, registered, rejected, row) for row in cursor.fetchall()]


def _state(
    cursor: extensions.cursor,
    slot: str,
    registered: Registration,
    rejected: dict[str, dict[str, int]] | None,
    row: tuple[Any, ...],
) -> FactState:
    name, relation, rows = row[:3]
    applied, moved_at, waits_since, newest_commit_at = row[3:7]
    rejected_lsn, left_out, built_on, is_declared = row[7:11]
    baseline_id, snapshot, counted_at, is_counted = row[11:]
    return FactState(
        name,
        relation,
        next((fact for fact in registered.facts if str(fact.relation) == relation), None),
        rows,
        None
        if applied is None
        else Watermark(
            lsn.parse(applied),
            moved_at,
            waits_since is not None,
            lsn.parse(rejected_lsn) if rejected_lsn else None,
            rejected_reasons(cursor, relation, slot) if rejected_lsn else {},
            left_out,
            built_on,
            is_declared,
            waits_since,
            newest_commit_at,
        ),
        None
        if baseline_id is None
        else Baseline(
            baseline_id,
            lsn.parse(snapshot),
            counted_at,
            is_counted,
            None if rejected is None else rejected.get(name, {}),
        ),
    )


def _rejected_rows(
    cursor: extensions.cursor, schema: str, slot: str
) -> dict[str, dict[str, int]] | None:
    """Return by fact and reason how many rows the baselines could not count."""
    cursor.execute(_MAY_READ, (Table(schema, "baseline_rejection").quoted,))
    if cursor.fetchall() != [(True,)]:
        return None
    cursor.execute(sql.SQL(_REJECTED_ROWS).format(sql.Identifier(schema)), (slot,))
    found: dict[str, dict[str, int]] = {}
    for name, reason, count in cursor.fetchall():
        found.setdefault(name, {})[reason] = count
    return found


def rejected_reasons(cursor: extensions.cursor, model: str, slot: str) -> dict[str, int] | None:
    """Return by reason the changes of a slot that a model rejected.

    None where this role may not see that.
    """
    cursor.execute(LISTED, (model,))
    found = cursor.fetchone()
    if found is None:
        return None
    cursor.execute(sql.SQL(_REJECTED).format(sql.Identifier(found[0])), (model, slot))
    return dict(cursor.fetchall())
