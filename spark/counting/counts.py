"""Counts a table's rows by group, for several facts at once, by the plain rules. No driver.

A task judges each distinct value of a column once, adds up what has the same values, and sends each
group to the task that adds the groups of its bucket.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as compute
from rules import values as rules
from rules.judging import by_column
from rules.numbers import Number, parse
from rules.values import Text
from waltally_jobs.common import sums
from waltally_jobs.common.buckets import by_bucket, chunks

from counting.values import NOT_FINITE, ROW_COUNT, FactPart, Value, column_name, total_name
from waltally.facts import Condition, Dimension, Fact, FactTable

COLUMNS = pa.schema(
    [
        pa.field("fact", pa.string()),
        pa.field("part", pa.string()),
        pa.field("dimensions", pa.list_(pa.string())),
        pa.field("row_count", pa.int64()),
        pa.field("sums", pa.list_(pa.string())),
        pa.field("reason", pa.string()),
        pa.field("example", pa.string()),
    ]
)
"""Of a group: `dimensions` are texts in the declaration's order, `sums` what the part adds to each
measure, as exact texts; `reason` says why rows are in no group, `example` is one of them as JSON.
Both are null of a group, which the rows of one reason are not."""

NULL_DIMENSION = "a dimension is null"
"""The reason of rows that are in no group and are not rejected."""
NO_NUMBER = "a number is NaN or infinite"
"""The reason in rows that say how many such values there are; the example is the column's name."""

Uncounted = tuple[int, str, Text]
"""How many rows are in no group, why, and one of them as JSON."""


@dataclass(frozen=True)
class TableCounting:
    """How the rows of a table are counted: by the server where `is_grouped`."""

    number: int
    """The table's place among those that are counted."""
    values: Sequence[Value]
    parts: Sequence[FactPart]
    slot: str
    is_grouped: bool
    may_be_infinite: frozenset[str]
    """The columns whose NaN and infinite values are null in the stream."""
    buckets: int
    """A power of two."""

    def kind(self, place: int) -> str:
        """Return what the groups of a part are called among what tasks make."""
        return f"{self.number} {place}"

    def partials(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield what the rows add, with the columns of PARTIAL."""
        parts = [_PartRules(part, self) for part in self.parts]
        for table in chunks(batches):
            rows = _Rows(self, table)
            for place, part in enumerate(parts):
                yield from by_bucket(self.kind(place), part.count(rows), self.buckets)

    def groups(self, place: int, tables: Sequence[pa.Table]) -> pa.RecordBatch:
        """Return the groups of a bucket, with COLUMNS, from what tasks say of a part."""
        part = self.parts[place]
        found, others = added(tables)
        counted = as_groups(part.fact, part.part, self.slot, found)
        return pa.concat_batches([counted, as_uncounted(part.fact, part.part, others)])


def as_groups(
    fact: Fact, part: FactTable, slot: str, groups: pa.Table, reason: str | None = None
) -> pa.RecordBatch:
    """Return groups of a part with the columns COLUMNS."""
    size = groups.num_rows
    numbers = [
        sums.texts_of(groups[name].combine_chunks()) for name in sums.sum_names(len(fact.measures))
    ]
    return pa.RecordBatch.from_arrays(
        [
            pa.repeat(pa.scalar(fact.name), size),
            pa.repeat(pa.scalar(part.name), size),
            sums.lists(sums.dimensions_of(groups, fact, slot), size),
            row_counts(groups, fact, part),
            sums.lists(numbers, size),
            pa.repeat(pa.scalar(reason, pa.string()), size),
            pa.nulls(size, pa.string()),
        ],
        schema=COLUMNS,
    )


def row_counts(groups: pa.Table, fact: Fact, part: FactTable) -> pa.Array:
    """Return how many rows each group has; 0 where they do not say and no measure counts rows."""
    if ROW_COUNT in groups.schema.names:
        return groups[ROW_COUNT].combine_chunks()
    place = 0 if fact.kind == "current_rows" else fact.counting_place(part)
    if place is None:
        return pa.repeat(pa.scalar(0, pa.int64()), groups.num_rows)
    name = sums.sum_names(len(fact.measures))[place]
    return sums.texts_of(groups[name].combine_chunks()).cast(pa.int64())


def as_uncounted(fact: Fact, part: FactTable, found: Sequence[Uncounted]) -> pa.RecordBatch:
    """Return rows that are in no group, with the columns COLUMNS."""
    same = {"fact": fact.name, "part": part.name, "dimensions": [], "sums": []}
    listed = [
        {**same, ROW_COUNT: count, "reason": reason, "example": example}
        for count, reason, example in found
    ]
    return pa.RecordBatch.from_pylist(listed, schema=COLUMNS)


def added(tables: Sequence[pa.Table]) -> tuple[pa.Table, list[Uncounted]]:
    """Return the groups of what tasks say of a bucket, and the rows that are in none."""
    names = tables[0].schema.names
    numbers = [name for name in names if name.startswith("sum_")]
    table = sums.together(tables, numbers)
    is_group = compute.is_null(table["reason"])
    keys = [name for name in names if sums.is_key(name)]
    found = sums.added(table.filter(is_group), keys, [ROW_COUNT, *numbers])
    others = table.filter(compute.invert(is_group)).select([ROW_COUNT, "reason", "example"])
    return found, [tuple(each.values()) for each in others.to_pylist()]


class _Coded:
    """A column as its distinct values, and which of them each row has."""

    def __init__(self, values: Sequence[Any], indices: pa.Array) -> None:
        self.values, self.indices = values, indices

    def texts(self, found: Sequence[Text]) -> pa.Array:
        """Return a text of each value by row."""
        return pa.array(found, pa.string()).take(self.indices)

    def flags(self, found: Sequence[bool | None]) -> pa.Array:
        """Return an answer of each value by row."""
        return pa.array(found, pa.bool_()).take(self.indices)

    def beside(self, other: _Coded) -> _Coded:
        """Return the pairs of both columns."""
        size = len(other.values)
        place = compute.add(
            compute.multiply(self.indices.cast(pa.int64()), size), other.indices.cast(pa.int64())
        ).dictionary_encode()
        pairs = [
            (self.values[each // size], other.values[each % size])
            for each in place.dictionary.to_pylist()
        ]
        return _Coded(pairs, place.indices)


class _Rows:
    """Rows of a table as they came, or groups of them."""

    def __init__(self, counting: TableCounting, table: pa.Table) -> None:
        self._counting, self._table = counting, table
        self._coded: dict[Value, _Coded] = {}
        self.size = table.num_rows
        self.counts = (
            table[ROW_COUNT].combine_chunks()
            if counting.is_grouped
            else pa.repeat(pa.scalar(1, pa.int64()), self.size)
        )

    def coded(self, value: Value) -> _Coded:
        """Return the texts of a value, as the stream has them, or the pairs of two columns."""
        if value not in self._coded:
            place = self._counting.values.index(value)
            columns = [
                self._column(place, factor, name) for factor, name in enumerate(value.columns)
            ]
            self._coded[value] = reduce(_Coded.beside, columns)
        return self._coded[value]

    def totals(self, value: Value) -> list[Number]:
        """Return what the server has added up of a number; of what it cannot add, nothing."""
        column = self._table[total_name(self._counting.values.index(value))]
        return [parse(text) if text else 0 for text in column.cast(pa.string()).to_pylist()]

    def not_finite(self, column: str) -> int:
        """Return how many rows have NaN or an infinite number in a column."""
        for place, value in enumerate(self._counting.values):
            if column in value.columns:
                raw = self._table[column_name(place, value.columns.index(column))]
                is_one = compute.is_in(raw, pa.array(NOT_FINITE, raw.type))
                return _sum(self.counts, is_one.combine_chunks())
        return 0

    def _column(self, place: int, factor: int, name: str) -> _Coded:
        found = self._table[column_name(place, factor)].combine_chunks()
        if not pa.types.is_integer(found.type) and not pa.types.is_string(found.type):
            found = found.cast(pa.binary())
        coded = found.dictionary_encode(null_encoding="encode")
        kind = coded.dictionary.type
        if pa.types.is_binary(kind):
            texts = [raw and _uuid_text(raw.hex()) for raw in coded.dictionary.to_pylist()]
        else:
            texts = coded.dictionary.cast(pa.string()).to_pylist()
        if name in self._counting.may_be_infinite:
            texts = [None if text in NOT_FINITE else text for text in texts]
        return _Coded(texts, coded.indices)


class _PartRules:
    """The rules for the rows of a table as a part of a fact, column by column.

    They are those of `rules.judging`, which judges one row after the other.
    """

    def __init__(self, part: FactPart, counting: TableCounting) -> None:
        fact = part.fact
        self._part = part
        self._is_grouped = counting.is_grouped
        self._columns = [
            column
            for column in fact.needed_columns(part.part)
            if column in counting.may_be_infinite
        ]
        self._dimensions = [
            _DimensionRules(
                part.dimension(each), each, fact.kind == "fact" or each.name in fact.key
            )
            for each in fact.dimensions
            if each.column
        ]
        self._slots = {each.name: counting.slot for each in fact.dimensions if not each.column}
        self._refuse_key = rules.refuse_key(fact)
        self._where = self._tests(fact.where)
        self._measures = [
            _MeasureRules(
                part.number(each) if each.columns else None,
                self._tests(each.where),
                rules.refuse_factors(each),
            )
            if part.part.name in each.of
            else None
            for each in fact.measures
        ]

    def _tests(self, where: Sequence[Condition]) -> list[_Test]:
        return [
            _Test(self._part.tested(each), rules.holds(each), rules.refuse_bound(each))
            for each in by_column(where)
        ]

    def count(self, rows: _Rows) -> pa.Table:
        """Return the groups of the rows, and how many are in none: keys, counts, sums, reason."""
        keys = [each.of(rows) for each in self._dimensions]
        where, refused = _tested(rows, self._where)
        meets = compute.fill_null(where, True)
        is_left_out = pa.repeat(pa.scalar(False), rows.size)
        for each in keys:
            if each.is_left_out is not None:
                is_left_out = compute.or_(is_left_out, each.is_left_out)
        reasons = [each.reasons for each in keys if each.reasons is not None]
        reasons += self._key_reasons(rows, keys) + refused
        adds, of_measures = [], []
        for measure in self._measures:
            if measure is None:
                adds.append(pa.repeat(pa.scalar(0, pa.int64()), rows.size))
                continue
            is_measured, refused = _tested(rows, measure.where)
            reasons += refused
            is_measured = compute.fill_null(is_measured, False)
            numbers, why = measure.of(rows, self._is_grouped)
            if why is not None:
                of_measures.append(compute.if_else(is_measured, why, None))
            adds.append(
                compute.if_else(is_measured, numbers, pa.scalar(0).cast(numbers.type))
                if measure.where
                else numbers
            )
        why = compute.coalesce(*reasons, *of_measures, pa.nulls(rows.size, pa.string()))
        has = compute.and_(meets, compute.invert(is_left_out))
        is_group = compute.and_(has, compute.is_null(why))
        names, numbers_ = sums.key_names(len(keys)), sums.sum_names(len(adds))
        columns = dict(zip(names, (each.printed for each in keys), strict=True))
        columns |= {ROW_COUNT: rows.counts, **dict(zip(numbers_, adds, strict=True))}
        table = pa.table(columns).filter(is_group)
        groups = sums.added(table, names, [ROW_COUNT, *numbers_])
        left_out = _sum(rows.counts, compute.and_(meets, is_left_out))
        listed: list[Uncounted] = [(left_out, NULL_DIMENSION, None)] if left_out else []
        listed += self._refused(rows, keys, compute.if_else(has, why, None))
        listed += [
            (number, NO_NUMBER, column)
            for column in self._columns
            if (number := rows.not_finite(column))
        ]
        return _with_others(groups, listed)

    def _key_reasons(self, rows: _Rows, keys: Sequence[_Key]) -> list[pa.Array]:
        """Return why the values of a row cannot be a key together; nothing where all can."""
        names = [each.name for each in self._dimensions]
        longest = {name: each.longest for name, each in zip(names, keys, strict=True)}
        if self._refuse_key(longest) is None:
            return []
        labels = zip(*(each.labels.to_pylist() for each in keys), strict=True)
        found = [self._refuse_key(dict(zip(names, each, strict=True))) for each in labels]
        return [pa.array(found, pa.string())]

    def _refused(self, rows: _Rows, keys: Sequence[_Key], why: pa.Array) -> list[Uncounted]:
        """Return by reason how many rows cannot be counted, and one of them."""
        found: list[Uncounted] = []
        for reason in compute.unique(why.drop_null()).to_pylist():
            at = compute.index(why, reason).as_py()
            example = {each.name: each.example(rows, at) for each in self._dimensions} | self._slots
            for measure in filter(None, self._measures):
                if (number := measure.example(rows, at, reason)) is not None:
                    example["value"] = number
            number_of_rows = _sum(rows.counts, compute.fill_null(compute.equal(why, reason), False))
            found.append((number_of_rows, reason, json.dumps(example)))
        return found


@dataclass(frozen=True)
class _Key:
    """A dimension of each row."""

    printed: pa.Array
    """What the fact has."""
    labels: pa.Array
    longest: Text
    """Of the labels."""
    reasons: pa.Array | None
    """Why it cannot be counted; None where each can."""
    is_left_out: pa.Array | None
    """Whether a null leaves it out; None where none does."""


class _DimensionRules:
    """The rules for the values of a dimension."""

    def __init__(self, value: Value, dimension: Dimension, is_key: bool) -> None:
        self.name = dimension.name
        self._value = value
        self._leaves_out = dimension.nulls == "leave_out"
        self._read = _found_at_path if dimension.kind == "path" else rules.read(dimension)
        self._refuse = rules.refuse(dimension, is_key=is_key)
        self._label, self._print = rules.label(dimension), rules.print_value(dimension)

    def of(self, rows: _Rows) -> _Key:
        coded = rows.coded(self._value)
        read = [self._read(text) for text in coded.values]
        reasons = [self._refuse(value) for value in read]
        fit = [None if reason else value for value, reason in zip(read, reasons, strict=True)]
        labels = [self._label(value) for value in fit]
        nulls = [value is None for value in read]
        return _Key(
            coded.texts([self._print(value) for value in fit]),
            coded.texts(labels),
            max(labels, key=lambda label: len((label or "").encode()), default=None),
            coded.texts(reasons) if any(reasons) else None,
            coded.flags(nulls) if self._leaves_out and any(nulls) else None,
        )

    def example(self, rows: _Rows, at: int) -> Text:
        """Return what is shown of a row's value."""
        coded = rows.coded(self._value)
        text = coded.values[coded.indices[at].as_py()]
        value = self._read(text)
        return rules.example(text if value == rules.UNREADABLE else value)


@dataclass(frozen=True)
class _Test:
    """Conditions on a column."""

    value: Value
    holds: Callable[[Text], bool | None]
    refused: Text
    """Why a text cannot be compared with their bounds."""


@dataclass(frozen=True)
class _MeasureRules:
    """The rules for a measure."""

    number: Value | None
    """What it adds up; None where it counts."""
    where: Sequence[_Test]
    refuse: Callable[[Sequence[Text]], Text]

    def of(self, rows: _Rows, is_grouped: bool) -> tuple[pa.Array, pa.Array | None]:
        """Return by row what it adds, and why it cannot; None where all rows can."""
        if self.number is None:
            return rows.counts, None
        coded = rows.coded(self.number)
        factors = [self._factors(each) for each in coded.values]
        reasons = [self.refuse(each) for each in factors]
        why = coded.texts(reasons) if any(reasons) else None
        if is_grouped:
            return sums.numbers_of(rows.totals(self.number)), why
        amounts = [
            0 if reason else rules.amount(each)
            for each, reason in zip(factors, reasons, strict=True)
        ]
        return sums.numbers_of(amounts).take(coded.indices), why

    def example(self, rows: _Rows, at: int, reason: str) -> Text:
        """Return what is shown of a row's number, where this is what is wrong with it."""
        if self.number is None:
            return None
        coded = rows.coded(self.number)
        factors = self._factors(coded.values[coded.indices[at].as_py()])
        if self.refuse(factors) != reason:
            return None
        return rules.example(" * ".join(text or "null" for text in factors))

    def _factors(self, found: Any) -> tuple[Text, ...]:
        return found if isinstance(found, tuple) else (found,)


def _found_at_path(text: Text) -> Text:
    """Read what the server says of a path: the text after `=`, or `!` for no readable document."""
    return rules.UNREADABLE if text == "!" else text and text[1:]


def _tested(rows: _Rows, tests: Sequence[_Test]) -> tuple[pa.Array, list[pa.Array]]:
    """Return by row whether all conditions hold, null where nobody can say, and why nobody can."""
    met, refused = pa.repeat(pa.scalar(True), rows.size), []
    for test in tests:
        coded = rows.coded(test.value)
        found = [test.holds(text) for text in coded.values]
        met = compute.and_kleene(met, coded.flags(found))
        if None in found:
            why = [test.refused if each is None else None for each in found]
            refused.append(coded.texts(why))
    return met, refused


def _sum(counts: pa.Array, mask: pa.Array) -> int:
    return int(compute.sum(counts.filter(mask)).as_py() or 0)


def _with_others(groups: pa.Table, listed: Sequence[Uncounted]) -> pa.Table:
    """Return the groups, and the rows that are in none, by reason."""
    nothing = pa.nulls(groups.num_rows, pa.string())
    whole = groups.append_column("reason", nothing).append_column("example", nothing)
    others = [
        {ROW_COUNT: count, "reason": reason, "example": example}
        for count, reason, example in listed
    ]
    return pa.concat_tables([whole, pa.Table.from_pylist(others, schema=whole.schema)])


def _uuid_text(digits: str) -> str:
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
