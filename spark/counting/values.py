"""What is read of a source table: the values that its facts need, each once. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from waltally.facts import Dimension, Fact, FactTable
from waltally.tables import Table


@dataclass(frozen=True)
class Value:
    """A value of a row: the stream's text of a column, a number of it, or a calendar day.

    A number is the column as the server prints it: the stream has null for NaN and infinity.
    """

    column: str
    """The table's own name of the column."""
    kind: Literal["text", "number", "date_of", "month_of"] = "text"
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

    def text(self, column: str) -> Value:
        """Return the text of a column of a condition."""
        return Value(self.part.column(column))

    def number(self, column: str) -> Value:
        """Return the summed number of a column."""
        return Value(self.part.column(column), "number")

    @property
    def values(self) -> list[Value]:
        """All values, some of them perhaps twice."""
        dimensions = (self.dimension(each) for each in self.fact.dimensions)
        return [
            *(value for value in dimensions if value is not None),
            *(self.text(each.column) for each in self.fact.where),
            *map(self.number, self.fact.summed_columns(self.part)),
        ]


def parts_of(facts: Iterable[Fact], table: Table) -> list[FactPart]:
    """Return the facts' parts that are counted from the table."""
    return [FactPart(fact, part) for fact in facts for part in fact.tables if part.table == table]


def needed(facts: Iterable[Fact], table: Table) -> tuple[Value, ...]:
    """Return the values that any of the facts needs of the table; their places are their names."""
    found = (value for each in parts_of(facts, table) for value in each.values)
    return tuple(dict.fromkeys(found))


def column_name(place: int) -> str:
    """Return what the value at this place of `needed` is called in Spark."""
    return f"value_{place}"
