"""What is read of a source table: the values that its facts need, each once. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from waltally.facts import Condition, Dimension, Fact, FactTable, Measure
from waltally.tables import Table


@dataclass(frozen=True)
class Value:
    """A value of a row: the stream's text of a column, a number of it, or a period of time.

    Of conditions it is `true` or `false`: values of which most differ would otherwise tell rows
    apart that count alike.
    """

    column: str
    """The table's own name of the column."""
    kind: Literal["text", "number", "period", "bucket", "path", "condition"] = "text"
    unit: str = "day"
    """Of a period."""
    timezone: str = "UTC"
    column_timezone: str = "UTC"
    factor: str | None = None
    """Of a number: the column that it is multiplied with."""
    path: tuple[str, ...] = ()
    bounds: tuple[str, ...] = ()
    conditions: tuple[Condition, ...] = ()
    """What must hold of the column, as the table calls it."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it is made of."""
        return (self.column,) if self.factor is None else (self.column, self.factor)


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
        if dimension.kind == "period":
            return Value(
                column,
                "period",
                dimension.unit or "day",
                dimension.timezone or "UTC",
                dimension.column_timezone or "UTC",
            )
        if dimension.kind == "bucket" or dimension.kind == "path":
            return Value(column, dimension.kind, path=dimension.path, bounds=dimension.bounds)
        return Value(column)

    def met(self, conditions: Iterable[Condition]) -> list[Value]:
        """Return by column whether all of these conditions hold."""
        by_column: dict[str, list[Condition]] = {}
        for each in conditions:
            own = self.part.column(each.column)
            by_column.setdefault(own, []).append(replace(each, column=own))
        return [
            Value(column, "condition", conditions=tuple(found))
            for column, found in by_column.items()
        ]

    def number(self, columns: tuple[str, ...]) -> Value:
        """Return the number that a sum of these columns adds up."""
        column, *factors = map(self.part.column, columns)
        return Value(column, "number", factor=factors[0] if factors else None)

    @property
    def values(self) -> list[Value]:
        """All values, some of them perhaps twice."""
        dimensions = (self.dimension(each) for each in self.fact.dimensions)
        return [
            *(value for value in dimensions if value is not None),
            *self.met(self.fact.where),
            *(self.number(each.columns) for each in self._measures if each.columns),
            *(value for each in self._measures for value in self.met(each.where)),
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
        if measure.columns and each.number(measure.columns) == number
    ]


def column_name(place: int) -> str:
    """Return what the value at this place of `needed` is called in Spark."""
    return f"value_{place}"


def total_name(place: int) -> str:
    """Return what the sum of the number at this place of `needed` is called in Spark."""
    return f"total_{place}"


ROW_COUNT = "row_count"
"""What Spark calls the number of rows that have the same values."""
