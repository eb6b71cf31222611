"""Compares models over models with their queries over their inputs, in one snapshot of the target.

PostgreSQL evaluates the query there, by SQL of the staging schema. No Spark is needed.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence

from waltally.errors import LoaderError
from waltally.tables import Table
from waltally_jobs.auditing.report import DependentReport, Wrong
from waltally_jobs.common.connections import TargetSession, one_moment
from waltally_jobs.common.errors import AuditIncomplete
from waltally_jobs.common.progress import print_status

_NAMES = """
select state.model_name
from {0}.model_state as state
inner join {0}.dependent_model as own on own.relation = state.relation
where
    state.slot_name = %s
    and own.declaration ->> 'kind' <> 'changes'
    and (state.model_name <> state.relation or state.model_name = any (%s))
order by own.level, state.model_name
"""
# Whatever its inputs wait for, it is what its query gives over them, unless it is to be filled; but
# both may be behind, in whatever slot.
_MODEL = """
select
    n.nspname,
    c.relname,
    own.declaration,
    own.error is null and not {0}.is_to_be_filled(own.relation)
        and {0}.changed_input(own.relation) is null,
    waiting.reason,
    waiting.remedy
from {0}.model_state as state
inner join {0}.dependent_model as own on own.relation = state.relation
cross join pg_class as c
inner join pg_namespace as n on n.oid = c.relnamespace
left join lateral (
    select one.reason, one.remedy
    from {0}.model_state as one
    where one.relation = own.relation and one.state <> 'follows'
    order by one.slot_name
    limit 1
) as waiting on true
where
    state.slot_name = %s and state.model_name = %s
    and n.nspname || '.' || c.relname = state.relation
"""
# An older snapshot sees no row, or no value, in a table that has got other columns.
_SHAPE = """
select
    jsonb_agg(jsonb_build_array(c.oid::bigint, c.relfilenode::bigint, own.columns) order by c.oid)
from pg_class as c
inner join pg_namespace as n on n.oid = c.relnamespace
cross join lateral (
    select jsonb_agg(jsonb_build_array(a.attnum, a.attname, a.atttypid::bigint) order by a.attnum)
    from pg_attribute as a
    where a.attrelid = c.oid and a.attnum > 0
) as own (columns)
where n.nspname || '.' || c.relname in (
    select %(relation)s
    union all
    select input_relation from {0}.dependent_input where relation = %(relation)s
)
"""
_NOTE = (
    "update {0}.dependent_model set audited_at = now(), major_version = {0}.major_version()"
    " where relation = %s and declaration = %s"
)


def names(target: TargetSession, chosen: Collection[str]) -> list[str]:
    """Return the models over models of the slot, the lowest first: all, or the chosen ones."""
    rows = target.ask_staging(_NAMES, (target.slot, list(chosen)))
    return [name for (name,) in rows if not chosen or name in chosen]


def compare(
    target: TargetSession, chosen: Sequence[str], refused: dict[str, LoaderError], limit: int
) -> list[DependentReport]:
    """Compare these models; note in `refused` why one cannot be compared."""
    found = []
    for name in chosen:
        try:
            found.append(_compare(target, name, limit))
        except LoaderError as error:
            refused[name] = error
    return found


def _compare(target: TargetSession, name: str, limit: int) -> DependentReport:
    with one_moment(target):
        rows = target.ask_staging(_MODEL, (target.slot, name))
        if not rows:
            raise AuditIncomplete(
                f"{name} was forgotten or moved, or its table was dropped, while the audit ran",
                "run the audit again; `dbt build` makes the model again",
            )
        ((schema, table, declaration, is_filled, reason, remedy),) = rows
        relation = Table(schema, table)
        if not is_filled:
            raise AuditIncomplete(f"{relation} was not compared: {reason}", remedy)
        shape = _shape(target, relation)
        print_status(f"comparing {relation} with its query")
        values = (json.dumps(declaration), relation.quoted, limit)
        ((query,),) = target.ask_staging("select {}.write_difference(%s, %s, %s)", values)
        target.ask("select set_config('timezone', %s, true)", (declaration["timezone"],))
        try:
            found, failure = target.ask(query), None
        except LoaderError as error:
            found, failure = [], error
    if _shape(target, relation) != shape:
        raise AuditIncomplete(
            f"{relation}, or a model that it reads, got another query while the audit ran",
            "run the audit again",
        )
    if failure:
        raise failure
    ((groups, differing, first),) = found
    keys = [key["name"] for key in declaration["keys"]]
    wrong = [
        Wrong(dict(zip(keys, texts, strict=True)), column, own, counted)
        for texts, column, own, counted in first
    ]
    if not differing and reason is None:
        target.ask_staging(_NOTE, (str(relation), json.dumps(declaration)))
    notes = [] if reason is None else [reason]
    return DependentReport(name, str(relation), groups, differing, wrong, notes)


def _shape(target: TargetSession, relation: Table) -> object:
    """Return what the tables of a model and of those that it reads are, as the session sees it."""
    return target.ask_staging(_SHAPE, {"relation": str(relation)})
