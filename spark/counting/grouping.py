"""The SQL by which the server itself counts the rows that have the same values. Pure.

Rows are grouped by what tells their texts apart, and the texts are made once per group. Where two
different texts can belong to equal values, as 1.0 and 1.00, the key is the text itself. So a group
is rows that Spark could not tell apart either, and everything else is done as for single rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from common.typed_values import kept_decimals, limits

from counting.columns import (
    CONVERTIBLE,
    IS_SHORT,
    OUTPUT,
    ColumnType,
    Selection,
    SparkColumn,
    number,
    period_of,
    spelled,
    written,
)
from counting.values import ROW_COUNT, Value, column_name, total_name
from waltally.facts import Measure
from waltally.tables import quoted

_BY_VALUE = {"uuid", "bool", "int2", "int4", "int8", "date", "timestamp", "timestamptz", "bytea"}
"""Types of pg_catalog of which two values are equal where their texts are."""

_LARGEST = {"int2": 2**15 - 1, "int4": 2**31 - 1, "int8": 2**63 - 1}

# A longer number is refused for its length; a total of such could have too many digits.
_CAN_BE_ADDED = "{0} between -1e2000 and 1e2000"
"""Of a product too, which has twice the digits."""


def groups(
    types: Mapping[str, ColumnType],
    values: Sequence[Value],
    measures: Mapping[Value, Iterable[Measure]],
) -> Selection:
    """Return how the server counts rows by the values of `needed`.

    `measures` has for each number those that it is added to. A number is in the result only where
    one of them may refuse it: then its text tells groups apart. Otherwise it is null.
    """
    keys: list[str] = []
    totals: list[str] = []
    listed: list[str] = []
    columns: list[SparkColumn] = []

    def key(sql: str) -> str:
        keys.append(f"{sql} as key_{len(keys)}")
        return f"key_{len(keys) - 1}"

    for place, value in enumerate(values):
        type_, column = types[value.column], quoted(value.column)
        kind: Literal["string", "binary"] = "string"
        if value.kind == "number":
            added = number(value, type_)
            refused = may_be_refused(*added, measures[value])
            text = spelled(value, type_)
            sql = key(f"case when {refused} then {text} end") if refused else "null::text"
            totals.append(f"{_total(*added)} as {total_name(place)}")
        elif value.kind == "period":
            is_time = CONVERTIBLE.format(column)
            period = key(f"case when {is_time} then {period_of(value, type_)} end")
            other = key(f"case when {is_time} then null else {column} end")
            sql = f"coalesce({period}::text, {OUTPUT.format(other)})"
        elif value.kind == "text" and type_.is_uuid:
            sql, kind = key(column), "binary"
        elif value.kind == "text" and (type_.name in _BY_VALUE or type_.is_enum):
            sql = written(type_, key(column))
        else:
            # A collation can take two different texts for equal.
            sql = key(f'({spelled(value, type_)}) collate "C"')
        listed.append(f"{sql} as {column_name(place)}")
        columns.append((column_name(place), kind))

    listed = listed or [f"'' as {column_name(0)}"]
    columns = columns or [(column_name(0), "string")]
    sums = [total_name(place) for place, each in enumerate(values) if each.kind == "number"]
    return Selection(
        ", ".join([*listed, ROW_COUNT, *(f"{name}::text as {name}" for name in sums)]),
        (*columns, (ROW_COUNT, "bigint"), *((name, "string") for name in sums)),
        ", ".join([*keys, f"count(*) as {ROW_COUNT}", *totals]),
        len(keys),
    )


def may_be_refused(type_: ColumnType, column: str, measures: Iterable[Measure]) -> str:
    """Return the SQL of whether typed_values.number_reason may refuse a number, "" for never.

    Never null: true also for numbers that are not refused, and false for null.
    """
    is_numeric = type_.base == "numeric"
    fits = [IS_SHORT.format(column)] if is_numeric else []
    for measure in measures:
        if (kept := kept_decimals(measure)) is None:
            continue
        least, most = limits(measure)
        if is_numeric:
            fits.append(f"min_scale({column}) <= {kept}")
        if is_numeric or _LARGEST.get(type_.base, 0) > most:
            fits.append(f"{column} between {least} and {most}")
    return f"not coalesce({' and '.join(fits)}, {column} is null)" if fits else ""


def _total(type_: ColumnType, column: str) -> str:
    if type_.base != "numeric":
        return f"sum({column})"
    return f"sum({column}) filter (where {_CAN_BE_ADDED.format(column)})"
