"""`loader stats`: a model as a person reads it; for anything more there is SQL."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from decimal import Decimal
from typing import Any

import psycopg2
from psycopg2 import errors as pg

from loader.monitoring.text_lines import REMEDY, aligned
from loader.staging.records import rejection_remedy, say_state
from waltally.database import Connection, connect
from waltally.errors import MissingRight, NotSetUp, SettingError
from waltally.freshness import say
from waltally.models import Measure, Model
from waltally.tables import Table, format_names, literal, parse_names, quoted

_MODELS = """
(
    select distinct on (model_name)
        model_name as name, relation_schema, relation_name, declaration
    from {0}.registered_model
    order by model_name, installed_at desc
)
union all
select
    model_name,
    split_part(relation, '.', 1),
    substr(relation, strpos(relation, '.') + 1),
    declaration
from {0}.dependent_model
where declaration ->> 'kind' <> 'changes'
order by name
"""
_STATES = """
select
    known.slot_name, known.state, known.reason, known.remedy,
    extract(
        epoch from clock_timestamp() - {0}.exact_as_of(known.slot_name, known.model_name)
    )::float8,
    mark.rejected_lsn::text
from {0}.model_state as known
left join {0}.model_watermark as mark
    on mark.slot_name = known.slot_name and mark.relation = known.relation
where known.relation = %s
order by known.slot_name
"""


def stats_lines(target: str, schema: str, name: str, where: Sequence[str], by: str) -> list[str]:
    """Return what a model says at one moment, or, without a name, which models there are.

    Raises SettingError for a model, a dimension or a value that cannot be, NotSetUp where the model
    was never built, MissingRight.
    """
    with closing(connect(target, "target")) as connection:
        connection.give_up_locks()
        connection.set_session(isolation_level="REPEATABLE READ", readonly=True, autocommit=True)
        models = {model.name: model for model in _read_models(connection, schema)}
        listed = [f"{model.name} (by {format_names(_names(model))})" for model in models.values()]
        if not name:
            return listed
        if (model := models.get(name)) is None:
            raise SettingError(f"There is no model {name}", f"name one of: {'; '.join(listed)}")
        values = dict(_parse_value(model, text) for text in where)
        columns = [_known(model, column) for column in parse_names(by, "--by", "--by")]
        with connection.transaction():
            rows = _read_rows(connection, model, values, list(dict.fromkeys(columns)))
            states = list(_states(connection, schema, model))
    chosen = ", ".join(f"{column} = {value}" for column, value in values.items())
    head, *lines = aligned(rows, right=range(len(rows[0]) - len(_measures(model)), len(rows[0])))
    rule = "-" * min(80, max(map(len, (head, *lines))))
    return [f"{model.relation}{chosen and f' where {chosen}'}", "", head, rule, *lines, "", *states]


def _read_models(target: Connection, schema: str) -> list[Model]:
    """Return the registered models of all slots. Raises NotSetUp where there is none."""
    rows: list[Any] = []
    with suppress(NotSetUp):
        rows = target.ask(_MODELS, None, schema)
    models = [Model(name, Table(*at), declaration) for name, *at, declaration in rows]
    if not models:
        raise NotSetUp(
            f"No model is registered in schema {schema} of the target", "run `loader setup`"
        )
    return models


def _names(model: Model) -> list[str]:
    return [dimension.name for dimension in model.dimensions]


def _known(model: Model, name: str) -> str:
    if name not in _names(model):
        raise SettingError(
            f"The model {model.name} has no dimension {name!r}",
            f"name one of: {format_names(_names(model))}",
        )
    return name


def _parse_value(model: Model, text: str) -> tuple[str, str]:
    # A name may have the sign too.
    known = [name for name in _names(model) if text.startswith(f"{name}=")]
    name = max(known, key=len, default=text.partition("=")[0])
    if name == text:
        raise SettingError(f"{text!r} is not dimension=value", "write, for instance, status=sent")
    return _known(model, name), text[len(name) + 1 :]


def _read_rows(
    target: Connection, model: Model, values: dict[str, str], by: list[str]
) -> list[list[str]]:
    """Return the head, a row per group that has anything, and the totals."""
    measures = _measures(model)
    listed = ", ".join(map(quoted, by))
    columns = ", ".join([*map(quoted, by), *(_total(model, measure) for measure in measures)])
    # Values are literals: beside parameters a name's % would be one too.
    conditions = [f"{quoted(name)} = {literal(value)}" for name, value in values.items()]
    if added := [quoted(measure.name) for measure in measures if _is_added(model, measure)]:
        conditions.append(" or ".join(f"{name} <> 0" for name in added))
    where = "".join(f" and ({condition})" for condition in conditions)
    sets = f"({listed}), ()" if by else "()"
    order = f"grouping({listed}), {listed}" if by else "1"
    statement = (
        f"select {columns} from {model.relation.quoted} where true{where} "
        f"group by grouping sets ({sets}) order by {order}"
    )
    try:
        with target.cursor() as cursor:
            cursor.execute(statement)
            *groups, totals = cursor.fetchall()
    except pg.UndefinedTable:
        raise NotSetUp(f"There is no table {model.relation} at the target", "`dbt build`") from None
    except psycopg2.DataError as error:
        raise SettingError(
            f"A value does not fit its dimension: {error.diag.message_primary}",
            "--by with the dimension shows the values that there are",
        ) from None
    return [
        [*by, *(measure.name for measure in measures)],
        *(list(map(_shown, row)) for row in groups),
        [*["total", *[""] * len(by)][: len(by)], *map(_shown, totals[len(by) :])],
    ]


def _measures(model: Model) -> Sequence[Measure]:
    """Return what the model shows: of a query's rows, which have no measure, how many there are.

    What a query needs besides is kept under names of ours.
    """
    shown = [each for each in model.measures if not each.name.startswith("waltally_")]
    return shown or (Measure("rows", "bigint", "count"),)


def _total(model: Model, measure: Measure) -> str:
    """Return a measure over the groups of a line; null where several groups have no common one."""
    form = "case when count(*) = 1 then (array_agg({}))[1] end"
    if model.kind == "rows":
        # They have a row for each row of the source and no column that counts them.
        form = "count(*)::numeric"
    elif _is_added(model, measure):
        form = "coalesce(sum({}), 0)"
    return form.format(quoted(measure.name))


def _is_added(model: Model, measure: Measure) -> bool:
    return measure.kind in ("count", "sum") and model.kind != "rows"


def _states(target: Connection, schema: str, model: Model) -> Iterator[str]:
    """Yield as of when the model is exact, for each slot, and what it lacks."""
    rows: list[Any] = []
    with suppress(NotSetUp, MissingRight):
        rows = target.ask(_STATES, (str(model.relation),), schema)
    if not rows:
        yield "It is unknown how fresh and complete this is: no watermark that this role may read."
    for slot, state, reason, remedy, age, rejected in rows:
        name = model.name if len(rows) == 1 else f"{model.name} of slot {slot}"
        yield f"{name}: {say(age)}"
        if reason:
            yield from (f"{say_state(name, state, reason)}.", f"{REMEDY}{remedy}")
        if rejected:
            yield f"Some changes, of all groups, could not be counted, the newest at {rejected}."
            yield f"{REMEDY}{rejection_remedy(model.name)}"


def _shown(value: Any) -> str:
    if isinstance(value, (int, Decimal)) and not isinstance(value, bool):
        return f"{value:,}"
    return "null" if value is None else str(value)
