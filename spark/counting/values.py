"""What is read of a source table: the values that its facts need, each once. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from rules.judging import by_column

from waltally.facts import Condition, Dimension, Fact, FactTable, Measure
from waltally.tables import Table

NOT_FINITE = ("NaN", "Infinity", "-Infinity")
"""JSON has no such number: the plugin writes null for it, but not for a domain's."""


@dataclass(frozen=True)
class Value:
    """A column of a row, or the columns that a measure adds up: what the server sends of them.

    It is the stream's text. Where most texts differ, the server may send another one that the rules
    take for alike: of a time the beginning of its `period`, of a document what is at its `path`, of
    a column whose `presence` alone matters an empty text.
    """

    columns: tuple[str, ...]
    """The table's own names; only a number has two, which are multiplied."""
    kind: Literal["text", "number", "period", "path", "presence"] = "text"
    unit: str = "day"
    """Of a period."""
    timezone: str = "UTC"
    column_timezone: str = "UTC"
    path: tuple[str, ...] = ()


@dataclass(frozen=True)
class FactPart:
    """A table as a part of one fact."""

    fact: Fact
    part: FactTable

    def dimension(self, dimension: Dimension) -> Value:
        """Return the value that a dimension with a column is made of."""
        columns = (self.part.column(str(dimension.column)),)
        if dimension.kind == "period":
            return Value(
                columns,
                "period",
                dimension.unit or "day",
                dimension.timezone or "UTC",
                dimension.column_timezone or "UTC",
            )
        if dimension.kind == "path":
            return Value(columns, "path", path=dimension.path)
        return Value(columns)

    def tested(self, conditions: Sequence[Condition]) -> Value:
        """Return the value that conditions on one column are tested of."""
        columns = (self.part.column(conditions[0].column),)
        is_presence = all(each.test == "is_null" for each in conditions)
        return Value(columns, "presence" if is_presence else "text")

    def number(self, measure: Measure) -> Value:
        """Return the number that a sum adds up."""
        return Value(tuple(map(self.part.column, measure.columns)), "number")

    @property
    def values(self) -> list[Value]:
        """All values, some of them perhaps twice."""
        return [
            *(self.dimension(each) for each in self.fact.dimensions if each.column),
            *map(self.tested, by_column(self.fact.where)),
            *(self.number(each) for each in self._measures if each.columns),
            *(self.tested(each) for one in self._measures for each in by_column(one.where)),
        ]

    @property
    def _measures(self) -> tuple[Measure, ...]:
        return self.fact.measures_of(self.part)


def parts_of(facts: Iterable[Fact], table: Table) -> list[FactPart]:
    """Return the facts' parts that are counted from the table."""
    return [FactPart(fact, part) for fact in facts for part in fact.tables if part.table == table]


def needed(facts: Iterable[Fact], table: Table) -> tuple[Value, ...]:
    """Return the values that any of the facts needs of the table; their places are their names."""
    found = (value for each in parts_of(facts, table) for value in each.values)
    return tuple(dict.fromkeys(found))


def measures_of(facts: Iterable[Fact], table: Table, number: Value) -> list[Measure]:
    """Return the measures that the number of the table is added to."""
    return [
        measure
        for each in parts_of(facts, table)
        for measure in each.fact.measures_of(each.part)
        if measure.columns and each.number(measure) == number
    ]


def say_no_numbers(count: int, column: str, table: Table | str) -> str:
    """Return how many values of a column are NaN or infinite, as a sentence."""
    are = "value is" if count == 1 else "values are"
    return f"{count:,} {are} NaN or infinite, so null, in {column} of {table}"


def column_name(place: int, factor: int = 0) -> str:
    """Return what a query calls the value at this place of `needed`, or a factor of it."""
    return f"value_{place}_{factor}"


def total_name(place: int) -> str:
    """Return what a query calls the sum of the number at this place of `needed`."""
    return f"total_{place}"


ROW_COUNT = "row_count"
"""What a query calls the number of rows that have the same values."""
