"""Counts rows by group, for several facts at once. Pure: DataFrame to DataFrame, no driver."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from common import typed_values
from common.exact_sums import sum_of, sum_text
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.types import BinaryType

from counting.values import ROW_COUNT, FactPart, Value, column_name, total_name
from waltally.facts import Condition, Dimension

COLUMNS = ("fact", "part", "dimensions", "row_count", "sums", "reason", "example")
"""Of a group: `dimensions` are texts in the declaration's order, `sums` what the part adds to each
measure, as exact texts; `reason` says why it cannot be counted, `example` is one of its rows as
JSON; both are null where it can."""

NULL_DIMENSION = "a dimension is null"
"""The reason of rows that the stream leaves out too, without rejecting them."""

_LONGEST_TEXT = 2**31 - 1


def each_row_once(rows: DataFrame, values: Sequence[Value]) -> DataFrame:
    """Return rows that were read one by one as `count_groups` takes them."""
    totals = {
        total_name(place): sql.col(column_name(place))
        for place, value in enumerate(values)
        if value.kind == "number"
    }
    return rows.withColumns({ROW_COUNT: sql.lit(1).cast("bigint"), **totals})


def count_groups(
    rows: DataFrame, values: Sequence[Value], parts: Sequence[FactPart], slot: str
) -> DataFrame:
    """Return the groups of every fact's part that a table's rows are counted for.

    `rows` has the `values` under their column names: texts, or uuids as bytes. One of `rows` stands
    for ROW_COUNT rows with the same values, and has the sum of each of their numbers as a text. A
    number that may be refused is also among the values; one that cannot be may be null there.

    The result has the columns COLUMNS, with the reasons of dbt's explain_rejection, and
    NULL_DIMENSION. Long texts of a group that cannot be counted are cut.
    """
    counts = [_Counting(rows, values, part, slot) for part in parts]
    is_bytes = [
        any(each.is_bytes(place) for each in counts)
        for place in range(max(len(each.keys) for each in counts))
    ]
    sums = max(len(each.summed) for each in counts)
    entries = [each.entry(number, is_bytes, sums) for number, each in enumerate(counts)]
    if len(entries) == 1:
        # Rows need no arrays then.
        counted = rows.where(counts[0].is_counted).select(*entries[0])
    else:
        each_entry = (
            sql.when(each.is_counted, sql.struct(*entry))
            for each, entry in zip(counts, entries, strict=True)
        )
        counted = (
            rows.select(sql.explode(sql.array(*each_entry)).alias("entry"))
            .where("entry is not null")
            .select("entry.*")
        )
    keys = [*(f"key_{place}" for place in range(len(is_bytes))), *(("refused",) if sums else ())]
    grouped = counted.groupBy("entry_number", *keys).agg(
        sql.sum(ROW_COUNT).alias(ROW_COUNT),
        *(sum_of(sql.col(f"number_{place}")).alias(f"sum_{place}") for place in range(sums)),
        *((sql.min("refused_text").alias("refused_text"),) if sums else ()),
    )
    nothing = sql.lit(None).cast("string")
    totals = grouped.withColumns(
        {f"sum_{place}": sum_text(sql.col(f"sum_{place}")) for place in range(sums)}
        if sums
        else {"refused": nothing, "refused_text": nothing}
    )
    groups = [each.group(is_bytes) for each in counts]
    return totals.select(_choose(groups).alias("group")).select("group.*")


def stream_text(column: Column, dimension: Dimension) -> Column:
    """Return what the stream would have, where the server says also that it cannot be read."""
    if dimension.kind not in ("path", "bucket"):
        return column
    found = sql.substring(column, 2, _LONGEST_TEXT) if dimension.kind == "path" else column
    return sql.when(column == "!", typed_values.UNREADABLE).otherwise(found)


class _Counting:
    """How the rows of a table count for one part of a fact."""

    def __init__(self, rows: DataFrame, values: Sequence[Value], part: FactPart, slot: str) -> None:
        self._rows = rows
        self._values = list(values)
        self._part = part
        self._slot = slot
        self.keys = [each for each in part.fact.dimensions if each.kind != "slot"]
        self.measures = part.fact.measures_of(part.part)
        self.summed = list(
            dict.fromkeys((m.columns, m.where) for m in self.measures if m.columns or m.where)
        )
        """What is added up besides rows: products of columns, () for rows, under conditions."""

    @property
    def is_counted(self) -> Column:
        """Whether a row meets every condition; null is not true, as in SQL."""
        return self._meets(self._part.fact.where)

    def is_bytes(self, place: int) -> bool:
        """Return whether the key at this place leaves the server as a uuid's bytes."""
        return place < len(self.keys) and self._is_bytes(self.keys[place])

    def entry(self, number: int, is_bytes: Sequence[bool], sums: int) -> list[Column]:
        """Return what a row adds: the same columns for every part, so that all are grouped once."""
        keys = [
            sql.lit(number).alias("entry_number"),
            *(
                self._key(place, as_bytes).alias(f"key_{place}")
                for place, as_bytes in enumerate(is_bytes)
            ),
            sql.col(ROW_COUNT),
        ]
        if not sums:
            return keys
        refused, refused_text = self._refused()
        return [
            *keys,
            refused.alias("refused"),
            refused_text.alias("refused_text"),
            *(
                (
                    sql.when(refused.isNull(), self._added(*self.summed[place]))
                    if place < len(self.summed)
                    else sql.lit(None).cast("string")
                ).alias(f"number_{place}")
                for place in range(sums)
            ),
        ]

    def group(self, is_bytes: Sequence[bool]) -> Column:
        """Return the group as a struct of COLUMNS."""
        fact = self._part.fact
        texts: list[Column] = []
        reason, left_out = sql.when(sql.lit(False), ""), sql.when(sql.lit(False), "")
        place = 0
        for dimension in fact.dimensions:
            if dimension.kind == "slot":
                texts.append(sql.lit(self._slot))
                continue
            text = self._text(dimension, sql.col(f"key_{place}"), is_bytes[place])
            place += 1
            texts.append(text)
            if dimension.nulls == "leave_out":
                left_out = left_out.when(text.isNull(), NULL_DIMENSION)
            is_limited = fact.kind == "fact" or dimension.name in fact.key
            found = typed_values.dimension_reason(text, dimension, is_limited)
            reason = reason.when(found.isNotNull(), found)
        names = [dimension.name for dimension in fact.dimensions]
        reason = sql.coalesce(
            reason, typed_values.key_reason(dict(zip(names, texts, strict=True)), fact)
        )
        why = sql.coalesce(left_out, reason, sql.col("refused"))
        cut = [typed_values.example(text) for text in texts]
        example = sql.struct(
            *(text.alias(name) for text, name in zip(cut, names, strict=True)),
            # The number that the reason is about.
            sql.when(reason.isNull(), sql.col("refused_text")).alias("value"),
        )
        return sql.struct(
            sql.lit(fact.name).alias("fact"),
            sql.lit(self._part.part.name).alias("part"),
            sql.when(why.isNull(), sql.array(*texts))
            .otherwise(sql.array(*cut))
            .cast("array<string>")
            .alias("dimensions"),
            sql.col(ROW_COUNT),
            sql.array(*(self._measured(number) for number in range(len(fact.measures))))
            .cast("array<string>")
            .alias("sums"),
            why.alias("reason"),
            sql.when(why.isNotNull(), sql.to_json(example)).alias("example"),
        )

    def _key(self, place: int, as_bytes: bool) -> Column:
        if place >= len(self.keys):
            return sql.lit(None).cast("binary" if as_bytes else "string")
        dimension = self.keys[place]
        column = self._column(self._value(dimension))
        if self._is_bytes(dimension):
            return column
        # Before counting, where one value can have several texts.
        text = typed_values.labelled(stream_text(column, dimension), dimension)
        return text.cast("binary") if as_bytes else text

    def _text(self, dimension: Dimension, key: Column, is_bytes: bool) -> Column:
        if self._is_bytes(dimension):
            return typed_values.uuid_text(sql.lower(sql.hex(key)))
        return key.cast("string") if is_bytes else key

    def _refused(self) -> tuple[Column, Column]:
        """Return why a number of the row cannot be added, null where all can, and its text."""
        why, text = sql.when(sql.lit(False), ""), sql.when(sql.lit(False), "")
        for measure in self.measures:
            if measure.columns:
                number = self._column(self._part.number(measure.columns))
                found = typed_values.number_reason(number, measure)
                is_refused = found.isNotNull() & self._meets(measure.where)
                why = why.when(is_refused, found)
                text = text.when(is_refused, typed_values.example(number))
        return why, text

    def _measured(self, number: int) -> Column:
        measure = self._part.fact.measures[number]
        if self._part.part.name not in measure.of:
            return sql.lit("0")
        if not measure.columns and not measure.where:
            return sql.col(ROW_COUNT).cast("string")
        return sql.col(f"sum_{self.summed.index((measure.columns, measure.where))}")

    def _added(self, columns: tuple[str, ...], where: Sequence[Condition]) -> Column:
        """Return what the rows of one of `rows` add to a sum, or their number; null is nothing."""
        if not columns:
            return sql.when(self._meets(where), sql.col(ROW_COUNT).cast("string"))
        place = self._values.index(self._part.number(columns))
        return sql.when(self._meets(where), sql.col(total_name(place)))

    def _meets(self, where: Sequence[Condition]) -> Column:
        met = (self._column(value) == "true" for value in self._part.met(where))
        return reduce(lambda one, other: one & other, met, sql.lit(True))

    def _value(self, dimension: Dimension) -> Value:
        value = self._part.dimension(dimension)
        assert value is not None
        return value

    def _column(self, value: Value) -> Column:
        return sql.col(self._name(value))

    def _name(self, value: Value) -> str:
        return column_name(self._values.index(value))

    def _has_bytes(self, value: Value) -> bool:
        kind = self._rows.schema[self._name(value)].dataType
        return isinstance(kind, BinaryType)

    def _is_bytes(self, dimension: Dimension) -> bool:
        return self._has_bytes(self._value(dimension))


def _choose(groups: Sequence[Column]) -> Column:
    """Return the struct of the part that the group belongs to."""
    if len(groups) == 1:
        return groups[0]
    chosen = sql.when(sql.col("entry_number") == 0, groups[0])
    for number, group in enumerate(groups[1:], 1):
        chosen = chosen.when(sql.col("entry_number") == number, group)
    return chosen
