"""Groups as Arrow's tables, and their sums without rounding. Pure.

A table of groups has the texts of its dimensions, without the slot's name, in columns `key_0`,
`key_1`, and what it adds to each measure in `sum_0`, `sum_1`, in the declaration's order.

A column of numbers is of 64-bit integers, of decimals or of texts, whichever holds its numbers and
their sum. Arrow adds the first two; it does not say where one overflows, so they are used only
where none can.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as compute
from rules.judging import Group
from rules.numbers import Number, multiply, parse, print_number, total

from waltally.facts import Fact

_MOST = 2**63 - 1
_DIGITS = 38
_DECIMALS = 6
"""With more of them Arrow prints small numbers with an exponent."""


def key_names(count: int) -> list[str]:
    """Return the names of so many dimensions."""
    return [f"key_{place}" for place in range(count)]


def sum_names(count: int) -> list[str]:
    """Return the names of so many measures."""
    return [f"sum_{place}" for place in range(count)]


def is_key(name: str) -> bool:
    """Return whether a column is one of a dimension."""
    return name.startswith("key_")


def groups_of(groups: Mapping[Group, Sequence[Number]], fact: Fact) -> pa.Table:
    """Return groups by the texts of all their dimensions as a table."""
    places = [place for place, each in enumerate(fact.dimensions) if each.column]
    keys, adds = list(groups), list(groups.values())
    columns = {
        name: pa.array([key[place] for key in keys], pa.string())
        for name, place in zip(key_names(len(places)), places, strict=True)
    }
    columns |= {
        name: numbers_of([each[place] for each in adds])
        for place, name in enumerate(sum_names(len(fact.measures)))
    }
    return pa.table(columns)


def dimensions_of(table: pa.Table, fact: Fact, slot: str) -> list[pa.Array]:
    """Return the texts of all dimensions, with the slot's name."""
    keys = iter(filter(is_key, table.schema.names))
    return [
        table[next(keys)].combine_chunks()
        if each.column
        else pa.repeat(pa.scalar(slot), table.num_rows)
        for each in fact.dimensions
    ]


def numbers_of(numbers: Sequence[Number]) -> pa.Array:
    """Return the numbers as a column."""
    if all(isinstance(each, int) and abs(each) <= _MOST for each in numbers):
        return pa.array(numbers, pa.int64())
    decimals = max(-int(Decimal(each).as_tuple().exponent) for each in numbers)
    largest = max(abs(Decimal(each)) for each in numbers)
    if 0 <= decimals <= _DECIMALS and largest < 10 ** (_DIGITS - _DECIMALS):
        return pa.array([Decimal(each) for each in numbers], pa.decimal128(_DIGITS, _DECIMALS))
    return pa.array(map(print_number, numbers), pa.string())


def parsed(texts: pa.Array) -> pa.Array:
    """Return the numbers that a column of texts says; null is 0."""
    texts = texts.fill_null("0")
    try:
        return texts.cast(pa.int64())
    except pa.ArrowInvalid:
        return numbers_of([parse(text) for text in texts.to_pylist()])


def texts_of(numbers: pa.Array) -> pa.Array:
    """Return the one text of each number, as `print_number` does."""
    if not pa.types.is_decimal(numbers.type):
        return numbers.cast(pa.string())
    return compute.utf8_rtrim(compute.utf8_rtrim(numbers.cast(pa.string()), "0"), ".")


def together(tables: Sequence[pa.Table], sums: Sequence[str]) -> pa.Table:
    """Return the rows of tables whose sums may be of different types."""
    for name in sums:
        if len({table.schema.field(name).type for table in tables}) > 1:
            place = tables[0].schema.get_field_index(name)
            tables = [table.set_column(place, name, texts_of(table[name])) for table in tables]
    return pa.concat_tables(tables)


def added(table: pa.Table, keys: Sequence[str], sums: Sequence[str]) -> pa.Table:
    """Return the exact sums by these keys, which are texts; null is a key too."""
    coded = {key: table[key].combine_chunks().dictionary_encode() for key in keys}
    columns = {key: each.indices for key, each in coded.items()}
    by = list(columns)
    if not by:
        # Without a key Arrow adds nothing up where there is no row.
        by, columns = ["all"], {"all": pa.nulls(table.num_rows, pa.int32())}
    columns |= {name: _addable(table[name]) for name in sums}
    how = {name: "list" if pa.types.is_string(columns[name].type) else "sum" for name in sums}
    found = (
        pa.table(columns)
        .group_by(by, use_threads=False)
        .aggregate([(name, how[name]) for name in sums])
    )
    result = {key: each.dictionary.take(found[key].combine_chunks()) for key, each in coded.items()}
    for name, kind in how.items():
        total_ = found[f"{name}_{kind}"].combine_chunks()
        if kind == "list":
            total_ = numbers_of([total(texts) for texts in total_.to_pylist()])
        result[name] = total_
    return pa.table(result)


def _addable(numbers: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the numbers in a type in which no sum of them overflows."""
    if pa.types.is_string(numbers.type) or not len(numbers):
        return numbers
    ends = compute.min_max(numbers).as_py().values()
    largest = max(abs(each) for each in ends) * len(numbers)
    is_decimal = pa.types.is_decimal(numbers.type)
    limit = 10 ** (_DIGITS - _DECIMALS) if is_decimal else _MOST
    return numbers if largest < limit else texts_of(numbers)


def negated(tables: Iterable[pa.Table]) -> list[pa.Table]:
    """Return groups with their sums taken times -1."""
    found = []
    for table in tables:
        for place, name in enumerate(table.schema.names):
            if not is_key(name):
                numbers = table[name].combine_chunks()
                if pa.types.is_string(numbers.type):
                    minus = numbers_of([multiply(parse(text), -1) for text in numbers.to_pylist()])
                else:
                    minus = compute.negate(numbers)
                table = table.set_column(place, name, minus)
        found.append(table)
    return found


def side_by_side(
    left: Sequence[pa.Table], right: Sequence[pa.Table], names: Sequence[str]
) -> pa.Table | None:
    """Return the groups of two sides, each sum as `NAME_0` and `NAME_1`; None without tables."""
    tables = [
        _on_side(table, names, side) for side, each in enumerate((left, right)) for table in each
    ]
    if not tables:
        return None
    both = [f"{name}_{side}" for name in names for side in (0, 1)]
    keys = list(filter(is_key, tables[0].schema.names))
    return added(together(tables, both), keys, both)


def _on_side(table: pa.Table, names: Sequence[str], side: int) -> pa.Table:
    nothing = pa.repeat(pa.scalar(0, pa.int64()), table.num_rows)
    columns = {name: table[name] for name in filter(is_key, table.schema.names)}
    for name in names:
        for each in (0, 1):
            columns[f"{name}_{each}"] = table[name] if each == side else nothing
    return pa.table(columns)


def added_for(fact: Fact, tables: Iterable[pa.Table]) -> pa.Table:
    """Return the groups of a fact that these tables of it add up to."""
    names = sum_names(len(fact.measures))
    whole = together([groups_of({}, fact), *tables], names)
    return added(whole, list(filter(is_key, whole.schema.names)), names)


def without_zeros(table: pa.Table) -> pa.Table:
    """Return the groups of which one sum is not zero."""
    is_something = pa.repeat(pa.scalar(False), table.num_rows)
    for name in table.schema.names:
        if not is_key(name):
            text = texts_of(table[name].combine_chunks())
            is_something = compute.or_(is_something, compute.not_equal(text, "0"))
    return table.filter(is_something)


def total_of(tables: Iterable[pa.Table], name: str) -> str:
    """Return the exact total of a measure over all groups."""
    texts = (texts_of(table[name].combine_chunks()).to_pylist() for table in tables)
    return print_number(total(itertools.chain.from_iterable(texts)))


def lists(columns: Sequence[pa.Array], size: int) -> pa.ListArray:
    """Return a list of each row's values in these columns."""
    width = len(columns)
    ends = compute.multiply(pa.arange(0, size + 1), width).cast(pa.int32())
    if not width:
        return pa.ListArray.from_arrays(ends, pa.array([], pa.string()))
    places = pa.arange(0, size * width)
    row = compute.divide(places, width)
    column = compute.subtract(places, compute.multiply(row, width))
    at = compute.add(compute.multiply(column, size), row)
    return pa.ListArray.from_arrays(ends, pa.concat_arrays(columns).take(at))
