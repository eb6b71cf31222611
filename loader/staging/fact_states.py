"""The facts of a slot as the target holds them: state, watermark, baseline, rejections."""

from __future__ import annotations

from typing import Any

from psycopg2 import extensions, sql

from loader.staging.records import Baseline, FactState, Watermark
from waltally import lsn
from waltally.tables import Table

# plan_models is what the view fact_state is made of.
_FACTS = """
select
    plans.fact_name,
    plans.model_name,
    fact.fact_name is not null,
    (
        select greatest(pg_stat_get_live_tuples(c.oid), c.reltuples::bigint, 0)
        from pg_class as c
        inner join pg_namespace as n on n.oid = c.relnamespace
        where n.nspname || '.' || c.relname = plans.model_name
        limit 1
    ),
    plans.state,
    plans.reason,
    plans.remedy,
    plans.state = 'waits' and plans.step is not null,
    plans.applied_lsn,
    mark.moved_at,
    mark.rejected_lsn,
    mark.left_out,
    mark.baseline_id::text,
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
    baseline.baseline_id::text,
    baseline.snapshot_lsn,
    baseline.counted_at
from {0}.plan_models(%s) as plans
left join {0}.fact
    on
        fact.slot_name = plans.slot_name
        and fact.fact_name = plans.fact_name
        and fact.relation_schema || '.' || fact.relation_name = plans.model_name
left join {0}.model_watermark as mark
    on mark.slot_name = plans.slot_name and mark.model_name = plans.model_name
left join {0}.baseline
    on baseline.slot_name = plans.slot_name and baseline.fact_name = plans.fact_name
order by plans.fact_name, plans.model_name
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
select reason, count(*) from {}.rejected_changes where fact = {} and slot_name = {}
group by reason order by reason
"""

_MAY_READ = "select has_table_privilege(to_regclass(%s), 'select')"
_REJECTED_ROWS = """
select fact_name, reason, sum(row_count)::bigint from {}.baseline_rejection
where slot_name = %s group by fact_name, reason order by fact_name, reason
"""


def read_fact_states(cursor: extensions.cursor, schema: str, slot: str) -> list[FactState]:
    """Return the registered facts of a slot, and what other dbt targets have installed of them."""
    rejected = _rejected_rows(cursor, schema, slot)
    cursor.execute(sql.SQL(_FACTS).format(sql.Identifier(schema)), (slot,))
    return [_state(cursor, slot, rejected, row) for row in cursor.fetchall()]


def _state(
    cursor: extensions.cursor,
    slot: str,
    rejected_rows: dict[str, dict[str, int]] | None,
    row: tuple[Any, ...],
) -> FactState:
    name, relation, is_registered, rows, state, reason, remedy, is_next = row[:8]
    applied, moved_at, rejected, left_out, built_on, waits_since, newest_commit_at = row[8:15]
    baseline_id, snapshot, counted_at = row[15:]
    return FactState(
        name,
        relation,
        is_registered,
        rows,
        state,
        reason,
        remedy,
        is_next,
        None
        if applied is None
        else Watermark(
            lsn.parse(applied),
            moved_at,
            lsn.parse(rejected) if rejected else None,
            rejected_reasons(cursor, relation, slot) if rejected else {},
            left_out,
            built_on,
            waits_since,
            newest_commit_at,
        ),
        None
        if baseline_id is None
        else Baseline(
            baseline_id,
            lsn.parse(snapshot),
            counted_at,
            None if rejected_rows is None else rejected_rows.get(name, {}),
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
    # No parameters: beside them a % in the schema's name would be one too.
    words = sql.Identifier(found[0]), sql.Literal(model), sql.Literal(slot)
    cursor.execute(sql.SQL(_REJECTED).format(*words))
    return dict(cursor.fetchall())
