"""`loader stats`: what a fact says of some groups; no other table is counted or read."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from decimal import MAX_PREC, Context, Decimal, localcontext
from typing import Any

import psycopg2
from psycopg2 import errors as pg
from psycopg2 import extensions, sql

from loader.monitoring import rejections
from loader.monitoring.stats_query import Query, parse_query
from loader.staging.fact_states import rejected_reasons
from loader.staging.records import say_state
from waltally.database import connect, explained
from waltally.errors import NotSetUp, SettingError
from waltally.facts import Fact, parse
from waltally.plural import plural
from waltally.tables import Table

JSON_VERSION = 2
"""Increased whenever a field of the JSON changes its meaning or is removed."""

_REGISTERED = """
select distinct on (fact_name) fact_name, relation_schema, relation_name, declaration
from {}.fact order by fact_name, registered_at desc
"""

_READABLE = """
select has_schema_privilege(n.oid, 'usage') and bool_and(has_table_privilege(c.oid, 'select'))
from pg_namespace as n
inner join pg_class as c on c.relnamespace = n.oid
where n.nspname = %s and c.relname = any(%s)
group by n.oid
having count(*) = %s
"""
_STAGING = ("change_log", "fact_state", "model_watermark", "slot_position")

_FRESHNESS = """
select
    said.slot_name,
    said.state,
    said.reason,
    said.remedy,
    mark.applied_lsn::text,
    mark.moved_at,
    log.position_lsn::text,
    exists (
        select from {0}.change_log as staged
        where staged.slot_name = mark.slot_name and staged.commit_lsn >= mark.applied_lsn
    ),
    mark.rejected_lsn::text,
    mark.left_out
from {0}.fact_state as said
inner join {0}.slot_position as log on log.slot_name = said.slot_name
left join {0}.model_watermark as mark
    on mark.slot_name = said.slot_name and mark.model_name = said.model_name
where said.model_name = %s
order by said.slot_name
"""


@dataclass(frozen=True)
class Freshness:
    """How far the fact has applied a slot's changes."""

    slot: str
    applied_lsn: str
    moved_at: str
    """When the watermark last moved, ISO 8601."""
    position_lsn: str
    is_behind: bool
    """Whether more is staged than the fact has applied."""


@dataclass(frozen=True)
class Stats:
    """The lines of an answer, and how fresh it is where the role may know that."""

    query: Query
    lines: list[dict[str, Any]]
    """Dimensions asked for, then the measures; exact numbers, None for a null."""
    totals: dict[str, Any]
    """The measures over all lines."""
    freshness: list[Freshness] | None
    """By slot; None where this role may not see that."""
    notes: list[str] | None
    """What the numbers lack, one sentence per reason; None where this role may not see that."""

    def as_json(self) -> dict[str, Any]:
        """Return the JSON contract (docs/reading.md); a number that is not whole is a text."""
        return {
            "version": JSON_VERSION,
            "fact": self.query.fact.name,
            "relation": str(self.query.fact.relation),
            "where": dict(self.query.where),
            "by": list(self.query.by),
            "lines": [{k: _json(v) for k, v in line.items()} for line in self.lines],
            "totals": {name: _json(value) for name, value in self.totals.items()},
            "notes": self.notes,
            "freshness": None if self.freshness is None else [asdict(f) for f in self.freshness],
        }


def read_facts(connection: extensions.connection, schema: str) -> list[Fact]:
    """Return the registered facts of all slots. Raises NotSetUp, MissingRight."""
    with explained("target"), connection, connection.cursor() as cursor:
        try:
            cursor.execute(sql.SQL(_REGISTERED).format(sql.Identifier(schema)))
        except (pg.UndefinedTable, pg.InvalidSchemaName):
            raise NotSetUp(
                f"No fact is registered in schema {schema} of the target", "run `loader setup`"
            ) from None
        facts = [parse(name, Table(*place), said) for name, *place, said in cursor.fetchall()]
    if not facts:
        raise NotSetUp(
            f"No fact is registered in schema {schema} of the target", "run `loader setup`"
        )
    return facts


def read_stats(
    target: str, schema: str, dbt_schema: str, name: str, where: Sequence[str], by: str
) -> Stats:
    """Return what a fact says at one moment; no line for groups that it does not have.

    `dbt_schema` is where the fact is, empty for where it is registered. Raises SettingError for a
    fact, a dimension or a value that cannot be, NotSetUp where the fact was never built,
    MissingRight, CannotConnect, LoginRefused.
    """
    with closing(connect(target, "target")) as connection:
        connection.set_session(isolation_level="REPEATABLE READ", readonly=True)
        query = parse_query(read_facts(connection, schema), name, where, by)
        registered = query.fact.relation
        relation = Table(dbt_schema or registered.schema, registered.name)
        with explained("target"), connection, connection.cursor() as cursor:
            cursor.execute(
                "select 1 from pg_class inner join pg_namespace as n on n.oid = relnamespace "
                "where nspname = %s and relname = %s",
                (relation.schema, relation.name),
            )
            if cursor.fetchone() is None:
                raise NotSetUp(f"There is no table {relation} at the target", "`dbt build`")
            lines = _lines(cursor, query, relation)
            return Stats(
                query,
                lines,
                _totals(query.fact, lines),
                *_freshness(cursor, schema, query.fact, relation),
            )


def _lines(cursor: extensions.cursor, query: Query, relation: Table) -> list[dict[str, Any]]:
    """Return a line per group that is asked for, of the groups that have anything."""
    fact = query.fact
    types = {each.name: each.type for each in fact.dimensions}
    keys = [sql.Identifier(name) for name in query.by]
    # Current rows have a row for each row of the source and no column that counts them.
    sums: list[sql.Composable] = [
        sql.SQL("sum({})").format(sql.Identifier(each.name))
        if fact.kind == "fact"
        else sql.SQL("count(*)::numeric")
        for each in fact.measures
    ]
    # Values are literals: beside parameters a name's % would be one too.
    conditions = [
        sql.SQL("{} = {}::{}").format(
            sql.Identifier(name), sql.Literal(value), sql.SQL(types[name])
        )
        for name, value in query.where.items()
    ]
    statement = sql.SQL("select {columns} from {table} where {where} {group}").format(
        columns=sql.SQL(", ").join([*keys, *sums]),
        table=sql.Identifier(relation.schema, relation.name),
        where=sql.SQL(" and ").join([sql.SQL("true"), *conditions]),
        group=sql.SQL("group by {0} order by {0}").format(sql.SQL(", ").join(keys))
        if keys
        else sql.SQL(""),
    )
    try:
        cursor.execute(statement)
    except psycopg2.DataError as error:
        raise SettingError(
            f"A value does not fit its dimension: {error.diag.message_primary}",
            "write values of these types: " + ", ".join(f"{n} {types[n]}" for n in query.where),
        ) from None
    names = [*query.by, *(each.name for each in fact.measures)]
    found = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    counts = [each.name for each in fact.measures]
    return [line for line in found if any(line[name] for name in counts)]


def _totals(fact: Fact, lines: list[dict[str, Any]]) -> dict[str, Any]:
    # A sum keeps every digit, however many there are.
    with localcontext(Context(prec=MAX_PREC)):
        return {each.name: sum(line[each.name] or 0 for line in lines) for each in fact.measures}


def _freshness(
    cursor: extensions.cursor, schema: str, fact: Fact, relation: Table
) -> tuple[list[Freshness] | None, list[str] | None]:
    """Return how fresh the fact is and what it lacks; None where a reader may not see that."""
    cursor.execute(_READABLE, (schema, list(_STAGING), len(_STAGING)))
    if cursor.fetchone() != (True,):
        return None, None
    cursor.execute(sql.SQL(_FRESHNESS).format(sql.Identifier(schema)), (str(relation),))
    rows = cursor.fetchall()
    if not rows:
        return None, None
    found, notes = [], []
    for slot, state, reason, remedy, applied, moved_at, position, *rest in rows:
        is_behind, rejected, left_out = rest
        if reason:
            name = fact.name if len(rows) == 1 else f"{fact.name} of slot {slot}"
            notes.append(f"{say_state(name, state, reason)}. Try: {remedy}")
        if applied:
            found.append(Freshness(slot, applied, moved_at.isoformat(), position, is_behind))
        if rejected:
            reasons = rejected_reasons(cursor, str(relation), slot)
            count = "Some changes" if reasons is None else plural(sum(reasons.values()), "change")
            notes.append(
                f"{count}, of all groups, could not be counted, the newest at {rejected}. "
                f"Try: {rejections.remedy(fact.name, reasons)}"
            )
        if lacking := sum((left_out or {}).values()):
            are = "lacks a dimension and is" if lacking == 1 else "lack a dimension and are"
            notes.append(f"{plural(lacking, 'row')}, of all groups, {are} left out.")
    return found, notes


def _json(value: Any) -> Any:
    """Return a value as JSON has it: a number keeps every digit, anything else is its text."""
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else str(value)
    return value if value is None or isinstance(value, (int, bool)) else str(value)
