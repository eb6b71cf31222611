"""What an old or a new row is for a fact: its group, what it adds, and why it cannot count. Pure.

A row's image is judged in this order: a condition that it fails, so it does not count; a null in a
dimension that leaves it out; then whether its values are of their types.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from functools import reduce
from typing import Literal

from common import typed_values
from pyspark.sql import Column
from pyspark.sql import functions as sql

from waltally.facts import Condition, Fact, FactTable, Measure

Side = Literal["old", "new"]

ACTIONS: dict[Side, str] = {"old": "UD", "new": "IU"}
"""By image, the actions that have it."""

SIDES: tuple[Side, ...] = ("old", "new")


def columns(fact: Fact) -> tuple[str, ...]:
    """Return the columns that any of the fact's tables needs, as the declaration calls them."""
    found = (column for part in fact.tables for column in fact.used_columns(part))
    return tuple(dict.fromkeys(found))


def required(fact: Fact, part: FactTable, side: Side) -> tuple[str, ...]:
    """Return the columns that an image of the table must carry, as the declaration calls them.

    Of current rows the old image only says which row it was.
    """
    if fact.kind == "current_rows" and side == "old":
        return key_columns(fact)
    return fact.used_columns(part)


def key_columns(fact: Fact) -> tuple[str, ...]:
    """Return the columns of the key of current rows, as the declaration calls them."""
    return tuple(each.column for each in fact.dimensions if each.column and each.name in fact.key)


def field(side: Side, place: int) -> str:
    """Return the name under which the image's value of a column is kept: by its place."""
    return f"{side}_{place}"


def value(fact: Fact, side: Side, column: str) -> Column:
    """Return the text of a column; null where it is absent or JSON's null."""
    return sql.col(f"{field(side, columns(fact).index(column))}.value")


def is_there(fact: Fact, side: Side, column: str) -> Column:
    """Return whether the image carries the column."""
    return sql.col(field(side, columns(fact).index(column))).isNotNull()


def meets(fact: Fact, side: Side) -> Column:
    """Return whether the image meets the conditions, as far as the columns that it carries say."""
    found = sql.coalesce(sql.col("action").isin(*ACTIONS[side]), sql.lit(False))
    for condition in fact.where:
        absent = ~is_there(fact, side, condition.column)
        # Where the value cannot be compared, `refusal` says so.
        found &= absent | sql.coalesce(_hold(fact, side, [condition]), sql.lit(True))
    return found


def counts(fact: Fact, side: Side) -> Column:
    """Return whether the image belongs to a group: it does not where a null leaves it out."""
    found = meets(fact, side)
    for place, each in enumerate(fact.dimensions):
        if each.column is None or each.nulls == "count":
            continue
        if each.column in _sides_columns(fact, side):
            # A number below all buckets is null too, and a path where there is nothing.
            is_null = sql.get(text_column(side), place).isNull()
            found &= ~(is_there(fact, side, each.column) & is_null)
    return found


def _hold(fact: Fact, side: Side, conditions: Sequence[Condition]) -> Column:
    """Return whether all conditions are true of an image; null where a value cannot be compared."""
    met = (typed_values.holds(each, value(fact, side, each.column)) for each in conditions)
    return reduce(operator.and_, met, sql.lit(True))


def _is_measured(fact: Fact, side: Side, measure: Measure) -> Column:
    """Return whether a counted image adds to the measure; false where that cannot be known."""
    found = sql.col("part").isin(list(measure.of)) & _hold(fact, side, measure.where)
    return sql.coalesce(found, sql.lit(False))


def absent(fact: Fact, side: Side) -> Column:
    """Return the names of the required columns that the image lacks; empty where it has all."""
    named = []
    for column in columns(fact):
        parts = [part.name for part in fact.tables if column in required(fact, part, side)]
        lacks = ~is_there(fact, side, column) & sql.col("part").isin(parts)
        if fact.kind == "current_rows" and column not in key_columns(fact):
            # Unchanged and stored out of line: the row before has the value.
            lacks &= sql.col("action") != "U"
        named.append(sql.when(lacks, sql.lit(column)))
    return sql.concat_ws(", ", *named)


def texts(fact: Fact, side: Side, slot: str) -> Column:
    """Return the texts of the dimensions; one that is not of its type is not to be used."""
    found = []
    for each in fact.dimensions:
        if each.column is None:
            found.append(sql.lit(slot))
        elif each.column in _sides_columns(fact, side):
            found.append(typed_values.as_dimension(value(fact, side, each.column), each))
        else:
            found.append(sql.lit(None).cast("string"))
    return sql.array(*found)


def sums(fact: Fact, side: Side) -> Column:
    """Return what the image adds to each measure, before its sign, as number texts."""
    found = []
    for measure in fact.measures:
        adds = sql.lit("1")
        if measure.columns:
            adds = sql.coalesce(typed_values.product(_factors(fact, side, measure)), sql.lit("0"))
        found.append(sql.when(_is_measured(fact, side, measure), adds).otherwise("0"))
    return sql.array(*found)


def refusal(fact: Fact, side: Side) -> Column:
    """Return why the first value that is not of its type is not; null where all are.

    For a frame that has `texts` under the name of text_column.
    """
    found = []
    for place, each in enumerate(fact.dimensions):
        if each.column is not None:
            # Of current rows only the key is in an index.
            is_limited = fact.kind == "fact" or each.name in fact.key
            text = sql.get(text_column(side), place)
            found.append(typed_values.dimension_reason(text, each, is_limited))
    placed = {each.name: sql.get(text_column(side), n) for n, each in enumerate(fact.dimensions)}
    found.append(typed_values.key_reason(placed, fact))
    for conditions, of in _tested(fact):
        if bounds := [each for each in conditions if each.has_bound]:
            is_unreadable = _hold(fact, side, conditions).isNull() & sql.col("part").isin(of)
            found.append(sql.when(is_unreadable, typed_values.condition_reason(bounds[0])))
    for measure in fact.measures:
        if measure.columns:
            reason = typed_values.factors_reason(_factors(fact, side, measure), measure)
            found.append(sql.when(_is_measured(fact, side, measure), reason))
    return sql.coalesce(*found, sql.lit(None).cast("string"))


def text_column(side: Side) -> str:
    """Return the name under which the image's `texts` are kept."""
    return f"{side}_texts"


def is_unmoved(fact: Fact) -> Column:
    """Return whether both images are the same to the fact; never null."""
    if fact.kind == "current_rows":
        return sql.lit(False)
    same = sql.lit(True)
    for column in columns(fact):
        same &= is_there(fact, "old", column) & is_there(fact, "new", column)
    for place, each in enumerate(fact.dimensions):
        if each.column is not None:
            # Two moments of one day are one group.
            old, new = (sql.get(text_column(side), place) for side in SIDES)
            same &= _is_same(fact, each.column) | old.eqNullSafe(new)
    for measure in fact.measures:
        for column in measure.columns:
            same &= _is_same(fact, column) | ~sql.col("part").isin(list(measure.of))
    for conditions, of in _tested(fact):
        old, new = (_hold(fact, side, conditions) for side in SIDES)
        same &= old.eqNullSafe(new) | ~sql.col("part").isin(of)
    return same


def _factors(fact: Fact, side: Side, measure: Measure) -> list[Column]:
    return [value(fact, side, column) for column in measure.columns]


def _tested(fact: Fact) -> list[tuple[tuple[Condition, ...], list[str]]]:
    """Return the conditions on each column, of the fact and of each measure, with their tables."""
    tables = [part.name for part in fact.tables]
    return [
        (tuple(each for each in where if each.column == column), of)
        for where, of in ((fact.where, tables), *((m.where, list(m.of)) for m in fact.measures))
        for column in dict.fromkeys(each.column for each in where)
    ]


def _is_same(fact: Fact, column: str) -> Column:
    return value(fact, "old", column).eqNullSafe(value(fact, "new", column))


def _sides_columns(fact: Fact, side: Side) -> set[str]:
    """Return the columns that matter in this image of any table."""
    return {column for part in fact.tables for column in required(fact, part, side)}
