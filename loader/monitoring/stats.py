"""`loader stats`: what a fact says of some groups; no other table is counted or read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import asdict, dataclass
from decimal import MAX_PREC, Context, Decimal, localcontext
from typing import Any

import psycopg2
from psycopg2 import sql

from loader.monitoring.text_lines import REMEDY, aligned
from loader.staging.records import rejection_remedy, say_state
from loader.staging.target_state import rejected_reasons
from waltally.database import Connection, connect
from waltally.errors import MissingRight, NotSetUp, SettingError
from waltally.facts import Fact, Measure, parse, parse_roll_up
from waltally.tables import Table, format_names, parse_names
from waltally.units import ago, plural

JSON_VERSION = 2
"""Increased whenever a field of the JSON changes its meaning or is removed."""

_REGISTERED = """
select distinct on (fact_name) fact_name, relation_schema, relation_name, declaration
from {}.fact order by fact_name, registered_at desc
"""
_ROLL_UPS = """
select fact_name, declaration ->> 'schema', declaration ->> 'table', declaration
from {}.roll_up order by fact_name
"""

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
    on mark.slot_name = said.slot_name and mark.model_name = said.relation
where said.relation = %s
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


def read_facts(target: Connection, schema: str) -> list[Fact]:
    """Return the registered facts of all slots. Raises NotSetUp, MissingRight."""
    facts: list[Fact] = []
    with suppress(NotSetUp):
        rows = target.ask(_REGISTERED, None, schema)
        facts += [parse(name, Table(*place), declared) for name, *place, declared in rows]
    with suppress(NotSetUp, MissingRight):
        rows = target.ask(_ROLL_UPS, None, schema)
        facts += [parse_roll_up(name, Table(*place), installed) for name, *place, installed in rows]
    if not facts:
        raise NotSetUp(
            f"No fact is registered in schema {schema} of the target", "run `loader setup`"
        )
    return facts


def list_facts(target: str, schema: str) -> dict[str, list[str]]:
    """Return the dimensions of each fact, by its name. Raises as `read_stats`."""
    with closing(connect(target, "target")) as connection:
        facts = read_facts(connection, schema)
    return {fact.name: [each.name for each in fact.dimensions] for fact in facts}


def read_stats(
    target: str, schema: str, dbt_schema: str, name: str, where: Sequence[str], by: str
) -> Stats:
    """Return what a fact says at one moment; no line for groups that it does not have.

    `dbt_schema` is where the fact is, empty for where it is registered. Raises SettingError for a
    fact, a dimension or a value that cannot be, NotSetUp where the fact was never built,
    MissingRight, CannotConnect, LoginRefused.
    """
    with closing(connect(target, "target")) as connection:
        connection.set_session(isolation_level="REPEATABLE READ", readonly=True, autocommit=True)
        query = parse_query(read_facts(connection, schema), name, where, by)
        registered = query.fact.relation
        relation = Table(dbt_schema or registered.schema, registered.name)
        with connection.transaction():
            if not connection.ask(
                "select 1 from pg_class inner join pg_namespace as n on n.oid = relnamespace "
                "where nspname = %s and relname = %s",
                (relation.schema, relation.name),
            ):
                raise NotSetUp(f"There is no table {relation} at the target", "`dbt build`")
            lines = _lines(connection, query, relation)
            return Stats(
                query,
                lines,
                _totals(query.fact, lines),
                *_freshness(connection, schema, query.fact, relation),
            )


def _lines(target: Connection, query: Query, relation: Table) -> list[dict[str, Any]]:
    """Return a line per group that is asked for, of the groups that have anything."""
    fact = query.fact
    types = {each.name: each.type for each in fact.dimensions}
    keys = [sql.Identifier(name) for name in query.by]
    sums = [_total(fact, each) for each in fact.measures]
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
        with target.cursor() as cursor:
            cursor.execute(statement)
            rows = cursor.fetchall()
    except psycopg2.DataError as error:
        raise SettingError(
            f"A value does not fit its dimension: {error.diag.message_primary}",
            "write values of these types: " + ", ".join(f"{n} {types[n]}" for n in query.where),
        ) from None
    names = [*query.by, *(each.name for each in fact.measures)]
    found = [dict(zip(names, row, strict=True)) for row in rows]
    counts = [each.name for each in fact.measures if _is_added(each)] or names
    return [line for line in found if any(line[name] for name in counts)]


def _total(fact: Fact, measure: Measure) -> sql.Composable:
    """Return a measure over the groups of a line; null where several groups have no common one."""
    name = sql.Identifier(measure.name)
    if fact.kind == "current_rows":
        # They have a row for each row of the source and no column that counts them.
        return sql.SQL("count(*)::numeric")
    if not _is_added(measure):
        return sql.SQL("case when count(*) = 1 then (array_agg({}))[1] end").format(name)
    return sql.SQL("sum({})").format(name)


def _is_added(measure: Measure) -> bool:
    return measure.kind in ("count", "sum")


def _totals(fact: Fact, lines: list[dict[str, Any]]) -> dict[str, Any]:
    # A sum keeps every digit, however many there are.
    with localcontext(Context(prec=MAX_PREC)):
        found: dict[str, Any] = {}
        for each in fact.measures:
            values = [line[each.name] for line in lines]
            if _is_added(each):
                found[each.name] = sum(value or 0 for value in values)
            else:
                found[each.name] = values[0] if len(values) == 1 else None
        return found


def _freshness(
    target: Connection, schema: str, fact: Fact, relation: Table
) -> tuple[list[Freshness] | None, list[str] | None]:
    """Return how fresh the fact is and what it lacks; None where a reader may not see that."""
    try:
        rows = target.ask(_FRESHNESS, (str(relation),), schema)
    except (NotSetUp, MissingRight):
        rows = []
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
            reasons = rejected_reasons(target, str(relation), slot)
            count = "Some changes" if reasons is None else plural(sum(reasons.values()), "change")
            notes.append(
                f"{count}, of all groups, could not be counted, the newest at {rejected}. "
                f"Try: {rejection_remedy(fact.name)}"
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


def render(stats: Stats) -> list[str]:
    """Return the lines as a table with totals, and how fresh they are."""
    by = stats.query.by
    measures = [each.name for each in stats.query.fact.measures]
    rows = [[*by, *measures]]
    rows += [[_shown(line[name]) for name in rows[0]] for line in stats.lines if by]
    last = ["total" if not number else "" for number in range(len(by))]
    rows.append([*last, *(_shown(stats.totals[name]) for name in measures)])
    lines = aligned(rows, right=range(len(by), len(rows[0])))
    # In a narrow terminal a longer rule would be two.
    rule = "-" * min(80, max(map(len, lines)))
    where = ", ".join(f"{name} = {value}" for name, value in stats.query.where.items())
    return [
        f"{stats.query.fact.relation}" + (f" where {where}" if where else ""),
        "",
        lines[0],
        rule,
        *lines[1:-1],
        *([rule] if len(lines) > 2 else []),
        lines[-1],
        "",
        *_freshness_lines(stats.freshness),
        # The remedy in a line of its own, so that it can be pasted.
        *(
            line
            for note in stats.notes or []
            for line in note.replace(f" {REMEDY}", f"\n{REMEDY}").split("\n")
        ),
    ]


def _freshness_lines(freshness: list[Freshness] | None) -> list[str]:
    if freshness is None:
        return [
            "It is unknown how fresh and complete this is: there is no watermark that this role "
            "may read."
        ]
    return [
        f"applied {ago(each.moved_at)}, "
        + ("and more is staged" if each.is_behind else "and nothing more is staged")
        + f" (position {each.applied_lsn} of slot {each.slot})"
        for each in freshness
    ]


def _shown(value: Any) -> str:
    if isinstance(value, (int, Decimal)) and not isinstance(value, bool):
        return f"{value:,}"
    return "null" if value is None else str(value)


@dataclass(frozen=True)
class Query:
    """What a person asks of a fact."""

    fact: Fact
    where: Mapping[str, str]
    """By dimension, the one value that its groups have."""
    by: tuple[str, ...]
    """The dimensions that each get a line per value."""


def parse_query(facts: Sequence[Fact], name: str, where: Sequence[str], by: str) -> Query:
    """Return what is asked for. Raises SettingError that lists what there is."""
    fact = next((each for each in facts if each.name == name), None)
    if fact is None:
        raise SettingError(
            f"There is no fact {name}",
            "name one of: "
            + "; ".join(f"{each.name} (by {format_names(_dimensions(each))})" for each in facts),
        )
    wanted = {}
    for text in where:
        # A name may have the sign too.
        known = [each for each in _dimensions(fact) if text.startswith(f"{each}=")]
        dimension = max(known, key=len, default=text.partition("=")[0])
        if dimension == text:
            raise SettingError(
                f"{text!r} is not dimension=value",
                "write one of: " + ", ".join(f"{each}=…" for each in _dimensions(fact)),
            )
        wanted[_dimension(fact, dimension)] = text[len(dimension) + 1 :]
    names = [_dimension(fact, each) for each in parse_names(by, "--by", "--by")]
    return Query(fact, wanted, tuple(dict.fromkeys(names)))


def _dimensions(fact: Fact) -> list[str]:
    return [each.name for each in fact.dimensions]


def _dimension(fact: Fact, name: str) -> str:
    if name not in _dimensions(fact):
        raise SettingError(
            f"The fact {fact.name} has no dimension {name!r}",
            "name one of: " + format_names(_dimensions(fact)),
        )
    return name
