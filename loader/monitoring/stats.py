"""`loader stats`: a model as a person reads it; for anything more there is SQL."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from decimal import Decimal
from typing import Any

import psycopg2
from psycopg2 import sql

from loader.monitoring.text_lines import REMEDY, aligned
from loader.staging.records import rejection_remedy, say_state
from loader.staging.target_state import rejected_reasons
from waltally.database import Connection, connect
from waltally.errors import MissingRight, NotSetUp, SettingError
from waltally.facts import Fact, Measure, parse, parse_roll_up
from waltally.freshness import say
from waltally.tables import Table, format_names, parse_names
from waltally.units import plural

_REGISTERED = """
select distinct on (fact_name) fact_name, relation_schema, relation_name, declaration
from {}.fact order by fact_name, registered_at desc
"""
_ROLL_UPS = """
select fact_name, declaration ->> 'schema', declaration ->> 'table', declaration
from {}.roll_up order by fact_name
"""
_STATES = """
select
    said.slot_name, said.state, said.reason, said.remedy,
    extract(
        epoch from clock_timestamp() - {0}.exact_as_of(said.slot_name, said.model_name)
    )::float8,
    mark.rejected_lsn::text,
    (select sum(parts.value::bigint)::bigint from jsonb_each_text(mark.left_out) as parts)
from {0}.fact_state as said
left join {0}.model_watermark as mark
    on mark.slot_name = said.slot_name and mark.model_name = said.relation
where said.relation = %s
order by said.slot_name
"""


def stats_lines(
    target: str, schema: str, dbt_schema: str, name: str, where: Sequence[str], by: str
) -> list[str]:
    """Return what a model says at one moment, or, without a name, which models there are.

    `dbt_schema` is where the model is, empty for where it is registered. Raises SettingError for a
    model, a dimension or a value that cannot be, NotSetUp where it was never built, MissingRight.
    """
    with closing(connect(target, "target")) as connection:
        connection.set_session(isolation_level="REPEATABLE READ", readonly=True, autocommit=True)
        models = {fact.name: fact for fact in _read_models(connection, schema)}
        listed = [f"{fact.name} (by {format_names(_names(fact))})" for fact in models.values()]
        if not name:
            return listed
        if (fact := models.get(name)) is None:
            raise SettingError(f"There is no fact {name}", f"name one of: {'; '.join(listed)}")
        relation = Table(dbt_schema or fact.relation.schema, fact.relation.name)
        values = dict(_parse_value(fact, text) for text in where)
        columns = [_known(fact, column) for column in parse_names(by, "--by", "--by")]
        with connection.transaction():
            if connection.ask("select to_regclass(%s)", (relation.quoted,)) == [(None,)]:
                raise NotSetUp(f"There is no table {relation} at the target", "`dbt build`")
            rows = _rows(connection, fact, relation, values, list(dict.fromkeys(columns)))
            states = list(_states(connection, schema, fact, relation))
    chosen = ", ".join(f"{column} = {value}" for column, value in values.items())
    head, *lines = aligned(rows, right=range(len(rows[0]) - len(fact.measures), len(rows[0])))
    rule = "-" * min(80, max(map(len, (head, *lines))))
    title = f"{fact.relation}" + (f" where {chosen}" if chosen else "")
    return [title, "", head, rule, *lines, "", *states]


def _read_models(target: Connection, schema: str) -> list[Fact]:
    """Return the registered models of all slots. Raises NotSetUp where there is none."""
    found: list[Fact] = []
    with suppress(NotSetUp):
        rows = target.ask(_REGISTERED, None, schema)
        found += [parse(name, Table(*place), declared) for name, *place, declared in rows]
    with suppress(NotSetUp, MissingRight):
        rows = target.ask(_ROLL_UPS, None, schema)
        found += [parse_roll_up(name, Table(*place), made) for name, *place, made in rows]
    if not found:
        raise NotSetUp(
            f"No fact is registered in schema {schema} of the target", "run `loader setup`"
        )
    return found


def _names(fact: Fact) -> list[str]:
    return [dimension.name for dimension in fact.dimensions]


def _known(fact: Fact, name: str) -> str:
    if name not in _names(fact):
        raise SettingError(
            f"The fact {fact.name} has no dimension {name!r}",
            f"name one of: {format_names(_names(fact))}",
        )
    return name


def _parse_value(fact: Fact, text: str) -> tuple[str, str]:
    # A name may have the sign too.
    known = [name for name in _names(fact) if text.startswith(f"{name}=")]
    name = max(known, key=len, default=text.partition("=")[0])
    if name == text:
        raise SettingError(f"{text!r} is not dimension=value", "write, for instance, status=sent")
    return _known(fact, name), text[len(name) + 1 :]


def _rows(
    target: Connection, fact: Fact, relation: Table, values: dict[str, str], by: list[str]
) -> list[list[str]]:
    """Return the head, a row per group that has anything, and the totals."""
    types = {dimension.name: dimension.type for dimension in fact.dimensions}
    keys = [sql.Identifier(name) for name in by]
    # Values are literals: beside parameters a name's % would be one too.
    conditions = [
        sql.SQL("{} = {}::{}").format(
            sql.Identifier(name), sql.Literal(value), sql.SQL(types[name])
        )
        for name, value in values.items()
    ]
    listed = sql.SQL(", ").join(keys)
    statement = sql.SQL(
        "select {} from {} where {} group by grouping sets ({}) order by {}"
    ).format(
        sql.SQL(", ").join([*keys, *(_total(fact, each) for each in fact.measures)]),
        sql.Identifier(relation.schema, relation.name),
        sql.SQL(" and ").join([sql.SQL("true"), *conditions]),
        sql.SQL("({}), ()").format(listed) if by else sql.SQL("()"),
        sql.SQL("grouping({0}), {0}").format(listed) if by else sql.SQL("1"),
    )
    try:
        with target.cursor() as cursor:
            cursor.execute(statement)
            *groups, totals = cursor.fetchall()
    except psycopg2.DataError as error:
        raise SettingError(
            f"A value does not fit its dimension: {error.diag.message_primary}",
            "write values of these types: " + ", ".join(f"{n} {types[n]}" for n in values),
        ) from None
    added = [at for at, each in enumerate(fact.measures, len(by)) if _is_added(each)]
    shown = [row for row in groups if not added or any(row[at] for at in added)]
    last = ["total", *[""] * len(by)][: len(by)]
    sums = [
        0 if _is_added(m) and v is None else v
        for m, v in zip(fact.measures, totals[len(by) :], strict=True)
    ]
    return [
        [*by, *(each.name for each in fact.measures)],
        *(list(map(_shown, row)) for row in shown),
        [*last, *map(_shown, sums)],
    ]


def _total(fact: Fact, measure: Measure) -> sql.Composable:
    """Return a measure over the groups of a line; null where several groups have no common one."""
    if fact.kind == "current_rows":
        # They have a row for each row of the source and no column that counts them.
        return sql.SQL("count(*)::numeric")
    form = "sum({})" if _is_added(measure) else "case when count(*) = 1 then (array_agg({}))[1] end"
    return sql.SQL(form).format(sql.Identifier(measure.name))


def _is_added(measure: Measure) -> bool:
    return measure.kind in ("count", "sum")


def _states(target: Connection, schema: str, fact: Fact, relation: Table) -> Iterator[str]:
    """Yield as of when the model is exact, for each slot, and what it lacks."""
    try:
        rows = target.ask(_STATES, (str(relation),), schema)
    except (NotSetUp, MissingRight):
        rows = []
    if not rows:
        yield "It is unknown how fresh and complete this is: no watermark that this role may read."
    for slot, state, reason, remedy, age, rejected, left_out in rows:
        name = fact.name if len(rows) == 1 else f"{fact.name} of slot {slot}"
        yield f"{name}: {say(age)}"
        if reason:
            yield from (f"{say_state(name, state, reason)}.", f"{REMEDY}{remedy}")
        if rejected:
            reasons = rejected_reasons(target, str(relation), slot)
            count = "Some changes" if reasons is None else plural(sum(reasons.values()), "change")
            yield f"{count}, of all groups, could not be counted, the newest at {rejected}."
            yield f"{REMEDY}{rejection_remedy(fact.name)}"
        if left_out:
            yield f"Left out, because a dimension is null: {plural(left_out, 'row')} of all groups."


def _shown(value: Any) -> str:
    if isinstance(value, (int, Decimal)) and not isinstance(value, bool):
        return f"{value:,}"
    return "null" if value is None else str(value)
