"""The SQL by which the server itself counts the rows that have the same values. Pure.

Rows are grouped by what tells their texts apart, and the texts are made once per group. Where two
different texts can belong to equal values, as 1.0 and 1.00, the key is the text itself. So a group
is rows that Spark could not tell apart either, and everything else is done as for single rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from psycopg2 import errors
from rules.values import limits_of
from waltally_jobs.common.arrow import LOCK_TIMEOUT
from waltally_jobs.evaluation.places import SAMPLED_PAGES, Estimate
from waltally_jobs.evaluation.ranges import Leaf

from counting.columns import (
    CONVERTIBLE,
    IS_SHORT,
    OUTPUT,
    ColumnType,
    Selection,
    period_of,
    sent,
    spelled,
    written,
)
from counting.values import ROW_COUNT, Value, column_name, total_name
from waltally.database import Connection
from waltally.errors import Interrupted
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

    def key(sql: str) -> str:
        keys.append(f"{sql} as key_{len(keys)}")
        return f"key_{len(keys) - 1}"

    for place, value in enumerate(values):
        own = [types[column] for column in value.columns]
        if value.kind == "number":
            refused = may_be_refused(value, own, measures[value])
            found = [
                key(f"case when {refused} then {written(type_, quoted(column))} end")
                if refused
                else "null::text"
                for column, type_ in zip(value.columns, own, strict=True)
            ]
            totals.append(f"{_total(value, own)} as {total_name(place)}")
        else:
            found = [_key_of(value, own[0], key)]
        listed += [f"{sql} as {column_name(place, at)}" for at, sql in enumerate(found)]

    sums = [total_name(place) for place, each in enumerate(values) if each.kind == "number"]
    return Selection(
        ", ".join([*listed, ROW_COUNT, *(f"{name}::text as {name}" for name in sums)]),
        ", ".join([*keys, f"count(*) as {ROW_COUNT}", *totals]),
        len(keys),
    )


def _key_of(value: Value, type_: ColumnType, key: Callable[[str], str]) -> str:
    """Return the SQL of a group's value, made of keys that tell it from others."""
    (name,) = value.columns
    column = quoted(name)
    if value.kind == "period":
        is_time = CONVERTIBLE.format(column)
        period = key(f"case when {is_time} then {period_of(value, type_)} end")
        other = key(f"case when {is_time} then null else {column} end")
        return f"coalesce({period}::text, {OUTPUT.format(other)})"
    if value.kind == "text" and sent(value, type_) == column:
        return key(column)
    if value.kind == "text" and (type_.name in _BY_VALUE or type_.is_enum):
        return written(type_, key(column))
    # A collation can take two different texts for equal.
    return key(f'({spelled(value, type_)}) collate "C"')


def may_be_refused(value: Value, types: Sequence[ColumnType], measures: Iterable[Measure]) -> str:
    """Return the SQL of whether a number may be refused, or may not be finite, "" for never.

    Never null: true also for numbers that are not refused, and false for null.
    """
    is_numeric = any(each.base == "numeric" for each in types)
    number = _number(value)
    fits = [IS_SHORT.format(quoted(column)) for column in value.columns] if is_numeric else []
    for measure in measures:
        if (limits := limits_of(measure)) is None:
            continue
        kept, least, most = limits
        if is_numeric:
            fits.append(f"min_scale({number}) <= {kept}")
        # Whole numbers have no bounds together.
        largest = _LARGEST.get(types[0].base, 0) if len(types) == 1 else most + 1
        if is_numeric or largest > most:
            fits.append(f"{number} between {least} and {most}")
    return f"not coalesce({' and '.join(fits)}, {number} is null)" if fits else ""


def _total(value: Value, types: Sequence[ColumnType]) -> str:
    number = _number(value)
    if all(each.base != "numeric" for each in types):
        return f"sum({number})"
    return f"sum({number}) filter (where {_CAN_BE_ADDED.format(number)})"


def _number(value: Value) -> str:
    """Return the SQL of a number, or of the product of two."""
    if len(value.columns) == 1:
        return quoted(value.columns[0])
    factors = [f"{quoted(column)}::numeric" for column in value.columns]
    # The product of longer ones, which are refused, would be an error.
    fit = " and ".join(f"{each} between -1e2001 and 1e2001" for each in factors)
    return f"(case when {fit} then {' * '.join(factors)} end)"


def estimate(connection: Connection, leaf: Leaf, pages: int, groups: Selection) -> Estimate | None:
    """Return what ranges of so many pages have; None where the table is locked.

    A lock that waits for the seed's own would make the sample wait for ever: it gives up instead.
    """
    if not leaf.has_addresses:
        return None
    percent = min(100 * SAMPLED_PAGES / max(leaf.pages, 1), 100)
    share = min(SAMPLED_PAGES / max(min(pages, leaf.pages), 1), 1.0)
    source = f"from only {leaf.table.quoted} tablesample system ({percent}) repeatable (1)"
    try:
        with connection.transaction():
            connection.ask(f"set local lock_timeout = '{LOCK_TIMEOUT}'")
            ((rows, found, pairs, singles),) = connection.ask(sample(source, groups))
    except Interrupted as error:
        if isinstance(error.__cause__, errors.LockNotAvailable):
            return None
        raise
    return judge(int(rows), found, int(pairs), singles, share)


def sample(source: str, groups: Selection) -> str:
    """Return the query of what `judge` needs of a sample."""
    names = ", ".join(f"key_{place}" for place in range(groups.keys))
    places = ", ".join(str(place + 1) for place in range(groups.keys + 1))
    return (
        "select coalesce(sum(row_count), 0), count(*), coalesce(sum(pages), 0),"
        " count(*) filter (where pages = 1) from ("
        f"select sum({ROW_COUNT}) as row_count, count(*) as pages from ("
        f"select (ctid::text::point)[0] as page, {groups.grouped} {source} group by {places}"
        f") as on_pages group by {names}) as sampled"
    )


def judge(rows: int, groups: int, pairs: int, singles: int, share: float) -> Estimate:
    """Return what a range has of which this share was sampled.

    `pairs` of a group and a page were found, and `singles` groups on one page alone. This is how
    ANALYZE estimates distinct values (the Duj1 estimator of Haas and Stokes), of pairs instead of
    rows: rows of one page are often alike, and would hide that every page has other groups.
    """
    unseen = singles / pairs * (1 - share) if pairs else 0.0
    return Estimate(rows / share, groups / (1 - unseen))
