"""What is read of a source table: the values that its facts need, each once. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from waltally.facts import Condition, Dimension, Fact, FactTable, Measure
from waltally.tables import Table


@dataclass(frozen=True)
class Value:
    """A value of a row: the stream's text of a column, a number of it, or a calendar day.

    Of `is_null` it is `true` where the stream has null, else `false`: a condition needs no more,
    and times of which most differ would otherwise tell rows apart that count alike.
    """

    column: str
    """The table's own name of the column."""
    kind: Literal["text", "number", "date_of", "month_of", "is_null"] = "text"
    timezone: str = "UTC"
    column_timezone: str = "UTC"


@dataclass(frozen=True)
class FactPart:
    """A table as a part of one fact."""

    fact: Fact
    part: FactTable

    def dimension(self, dimension: Dimension) -> Value | None:
        """Return the value that the dimension is made of; None for the slot's name."""
        if dimension.column is None:
            return None
        column = self.part.column(dimension.column)
        if dimension.kind == "date_of" or dimension.kind == "month_of":
            return Value(
                column,
                dimension.kind,
                dimension.timezone or "UTC",
                dimension.column_timezone or "UTC",
            )
        return Value(column)

    def tested(self, condition: Condition) -> Value:
        """Return what a condition needs of its column."""
        kind: Literal["text", "is_null"] = "is_null" if condition.test == "is_null" else "text"
        return Value(self.part.column(condition.column), kind)

    def number(self, column: str) -> Value:
        """Return the summed number of a column."""
        return Value(self.part.column(column), "number")

    @property
    def values(self) -> list[Value]:
        """All values, some of them perhaps twice."""
        dimensions = (self.dimension(each) for each in self.fact.dimensions)
        return [
            *(value for value in dimensions if value is not None),
            *map(self.tested, self.fact.where),
            *map(self.number, self.fact.summed_columns(self.part)),
        ]


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
        for measure in each.fact.measures
        if measure.column is not None
        and each.part.name in measure.of
        and each.number(measure.column) == number
    ]


def column_name(place: int) -> str:
    """Return what the value at this place of `needed` is called in Spark."""
    return f"value_{place}"


def total_name(place: int) -> str:
    """Return what the sum of the number at this place of `needed` is called in Spark."""
    return f"total_{place}"


ROW_COUNT = "row_count"
"""What Spark calls the number of rows that have the same values."""
