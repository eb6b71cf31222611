"""What a fact counts, as its dbt model declares it. Pure: Spark's executors import it.

The macro `fact` checks a declaration and writes it out in full, with every default, into the
model's `config.meta.waltally`. `loader setup` registers that; loader and Spark read nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from waltally.tables import Table

VERSION = 1
"""Of the form of a declaration."""

Declaration = Mapping[str, Any]
"""As JSON: lists keep the order of dimensions and measures, which the ids depend on."""


@dataclass(frozen=True)
class FactTable:
    """A source table that feeds a fact."""

    name: str
    """The name that the fact gives to it."""
    table: Table
    deletes: Literal["count", "ignore"]
    """`ignore`: a deleted row stays counted."""
    columns: Mapping[str, str]
    """The table's own column by the name that the fact uses, where they differ."""

    def column(self, name: str) -> str:
        """Return what the table calls a column of the declaration."""
        return self.columns.get(name, name)


@dataclass(frozen=True)
class Dimension:
    """A column of the fact's key."""

    name: str
    type: str
    kind: Literal["column", "date_of", "month_of", "slot"]
    column: str | None
    """The source column as the declaration calls it; None for the slot."""
    timezone: str | None
    """Where the calendar day or month is taken; None for other kinds."""
    column_timezone: str | None
    """The zone of a timestamp that has none of its own; None for other kinds."""
    nulls: Literal["leave_out", "count"]
    """`count`: null is a group."""


@dataclass(frozen=True)
class Measure:
    """A number that is added up: rows, or the values of a column."""

    name: str
    kind: Literal["count", "sum"]
    column: str | None
    """The summed column as the declaration calls it; None for a count."""
    of: tuple[str, ...]
    """The names of the tables that it adds up."""
    type: str
    """`bigint`, `numeric` or `numeric(p, s)`."""


@dataclass(frozen=True)
class Condition:
    """Which rows count: all conditions must hold, as in SQL's WHERE, where null is not true."""

    column: str
    test: Literal["in", "not_in", "is_null"]
    values: tuple[str, ...]
    """The texts of `in` and `not_in`; empty for `is_null`."""
    is_null: bool | None
    """What `is_null` asks for; None for the other tests."""


@dataclass(frozen=True)
class Fact:
    """A fact, or the current rows of a table, which are a fact with a row in each group."""

    name: str
    """The model's name."""
    relation: Table
    """Where the model puts its rows; `str(relation)` is its key in model_watermark."""
    kind: Literal["fact", "current_rows"]
    tables: tuple[FactTable, ...]
    dimensions: tuple[Dimension, ...]
    measures: tuple[Measure, ...]
    where: tuple[Condition, ...]
    key: tuple[str, ...]
    """The dimensions that tell current rows apart; empty for a fact."""
    declaration: Declaration
    """The whole as it is registered."""

    @property
    def has_slot_dimension(self) -> bool:
        """Whether several slots may feed it."""
        return any(dimension.kind == "slot" for dimension in self.dimensions)

    @property
    def key_dimensions(self) -> tuple[Dimension, ...]:
        """The columns of its unique index."""
        return tuple(each for each in self.dimensions if not self.key or each.name in self.key)

    def part(self, name: str) -> FactTable:
        """Return the table with this name in the fact."""
        return next(table for table in self.tables if table.name == name)

    def summed_columns(self, part: FactTable) -> tuple[str, ...]:
        """Return the columns, as the declaration calls them, that are summed in a table."""
        found = (each.column for each in self.measures if part.name in each.of)
        return tuple(dict.fromkeys(column for column in found if column is not None))

    def used_columns(self, part: FactTable) -> tuple[str, ...]:
        """Return the columns, as the declaration calls them, that an image of the table needs."""
        dimensions = (each.column for each in self.dimensions)
        conditions = (each.column for each in self.where)
        found = (*dimensions, *self.summed_columns(part), *conditions)
        return tuple(dict.fromkeys(column for column in found if column is not None))

    def needed_columns(self, part: FactTable) -> tuple[str, ...]:
        """Return the table's own columns that every new image of it must carry."""
        return tuple(dict.fromkeys(map(part.column, self.used_columns(part))))

    @property
    def needed(self) -> dict[str, tuple[str, ...]]:
        """The columns that it needs of each of its tables, by `schema.name`."""
        return {str(table): needed_columns([self], table) for table in source_tables([self])}

    def identity_columns(self, part: FactTable) -> tuple[str, ...]:
        """Return the table's own columns that every old image of it must carry.

        An old row of a fact belongs to a group by all of them; a current row is found by its key.
        """
        if self.kind == "fact":
            return self.needed_columns(part)
        keys = (each.column for each in self.dimensions if each.name in self.key)
        return tuple(part.column(column) for column in keys if column is not None)


def parse(name: str, relation: Table, declaration: Declaration) -> Fact:
    """Return the fact that a registered declaration describes."""
    return Fact(
        name,
        relation,
        declaration["kind"],
        tuple(
            FactTable(
                each["name"], Table(each["schema"], each["table"]), each["deletes"], each["columns"]
            )
            for each in declaration["tables"]
        ),
        tuple(Dimension(**each) for each in declaration["dimensions"]),
        tuple(
            Measure(each["name"], each["kind"], each["column"], tuple(each["of"]), each["type"])
            for each in declaration["measures"]
        ),
        tuple(
            Condition(each["column"], each["test"], tuple(each["values"]), each["is_null"])
            for each in declaration["where"]
        ),
        tuple(declaration["key"]),
        declaration,
    )


def source_tables(facts: Iterable[Fact]) -> tuple[Table, ...]:
    """Return every table that feeds one of the facts, each once."""
    return tuple(dict.fromkeys(part.table for fact in facts for part in fact.tables))


def needed_columns(facts: Iterable[Fact], table: Table) -> tuple[str, ...]:
    """Return the columns of a source table that any of the facts needs, each once."""
    found = (fact.needed_columns(part) for fact, part in _parts(facts, table))
    return tuple(dict.fromkeys(column for columns in found for column in columns))


def identity_columns(facts: Iterable[Fact], table: Table) -> tuple[str, ...]:
    """Return the columns that an old row of a source table must carry for the facts, each once."""
    found = (fact.identity_columns(part) for fact, part in _parts(facts, table))
    return tuple(dict.fromkeys(column for columns in found for column in columns))


def _parts(facts: Iterable[Fact], table: Table) -> Iterator[tuple[Fact, FactTable]]:
    return ((fact, part) for fact in facts for part in fact.tables if part.table == table)
