"""What a fact counts, as its dbt model declares it. Pure: Spark's executors import it.

The macro `fact` checks a declaration and writes it out in full, with every default, into the
model's `config.meta.waltally`. `loader setup` registers that; loader and Spark read nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

from waltally.errors import SettingError
from waltally.escapes import escaped
from waltally.tables import Table

VERSION = 1
"""The version of the form of a declaration."""

Declaration = Mapping[str, Any]
"""As JSON: lists keep the order of dimensions and measures, which the ids depend on."""

_TYPE = re.compile(r"[a-z]+(\([0-9]+(, ?[0-9]+)?\))?")
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")
_NUMERIC = re.compile(r"numeric\( *([0-9]+) *(?:, *([0-9]+) *)?\)")


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

    @property
    def ignores_deletes(self) -> bool:
        """Whether a deleted row stays counted."""
        return self.deletes == "ignore"

    def column(self, name: str) -> str:
        """Return what the table calls a column of the declaration."""
        return self.columns.get(name, name)


@dataclass(frozen=True)
class Dimension:
    """A column of the fact's key."""

    name: str
    type: str
    kind: Literal["column", "period", "bucket", "path", "slot"]
    column: str | None
    """The source column as the declaration calls it; None for the slot."""
    unit: str | None
    """A period's `hour`, `day`, `week`, `month`, `quarter`, `year` or `900 seconds`; else None."""
    timezone: str | None
    """The time zone of the periods; None for other kinds."""
    column_timezone: str | None
    """The zone of a timestamp that has none of its own; None for other kinds."""
    path: tuple[str, ...]
    """The path to the value in a JSON document; () for other kinds."""
    bounds: tuple[str, ...]
    """The lower bounds of buckets; () for other kinds."""
    labels: Mapping[str, str]
    """By the text of a value, its name in the fact."""
    other_label: str | None
    """The name of a value without a label; None for its own text. Null stays null."""
    value_type: str
    """The type of a value: without labels, the type of the fact's column."""
    nulls: Literal["leave_out", "count"]
    """`count`: the rows with null are a group; `leave_out`: they do not count."""

    @property
    def is_instant(self) -> bool:
        """Whether it is a period that begins at an instant, not on a day."""
        return self.kind == "period" and self.type == "timestamptz"


@dataclass(frozen=True)
class Condition:
    """Which rows count: all conditions must hold, as in SQL's WHERE, where null is not true."""

    column: str
    test: Literal["in", "not_in", "is_null", "at_least", "below"]
    values: tuple[str | None, ...]
    """The texts of `in` and `not_in`, None for null, or the one bound; empty for `is_null`.

    Null meets an `in` whose list has it, and never a `not_in`.
    """
    is_null: bool | None
    """The answer that `is_null` wants; None for the other tests."""

    @property
    def has_bound(self) -> bool:
        """Whether it compares with a number, or with a date or time in UTC."""
        return self.test in ("at_least", "below")

    @property
    def bound(self) -> str:
        """The number, date or time that it compares with."""
        return str(self.values[0])

    @property
    def is_of_numbers(self) -> bool:
        """Whether the bound is a number."""
        return self.has_bound and _NUMBER.fullmatch(self.bound) is not None


@dataclass(frozen=True)
class Measure:
    """A number that is added up: rows, or the values of a column.

    A roll-up may also have `distinct`, `min`, `max`, `percentile` or another `value`, which cannot
    be added up.
    """

    name: str
    kind: Literal["count", "sum", "distinct", "min", "max", "percentile", "value"]
    columns: tuple[str, ...]
    """The summed column of the declaration, or two for a product; () for a count."""
    of: tuple[str, ...]
    """The names of the tables that it adds up."""
    type: str
    """`bigint`, `numeric` or `numeric(p, s)`."""
    where: tuple[Condition, ...]
    """Conditions on the rows that it adds up, beside those of the fact."""


@dataclass(frozen=True)
class Fact:
    """A fact, the current rows of a table, or a roll-up.

    Current rows are a fact with one row in each group; a roll-up has no source tables.
    """

    name: str
    """The model's name."""
    relation: Table
    """The model's table; `str(relation)` is its key in model_watermark."""
    kind: Literal["fact", "current_rows", "roll_up"]
    tables: tuple[FactTable, ...]
    dimensions: tuple[Dimension, ...]
    measures: tuple[Measure, ...]
    where: tuple[Condition, ...]
    key: tuple[str, ...]
    """The dimensions that tell current rows apart; empty for a fact."""
    declaration: Declaration
    """The whole declaration as it is registered."""

    @property
    def key_dimensions(self) -> tuple[Dimension, ...]:
        """The columns of its unique index."""
        return tuple(d for d in self.dimensions if not self.key or d.name in self.key)

    def part(self, name: str) -> FactTable:
        """Return the table with this name in the fact."""
        return next(table for table in self.tables if table.name == name)

    def measures_of(self, part: FactTable) -> tuple[Measure, ...]:
        """Return the measures that a table adds to."""
        return tuple(measure for measure in self.measures if part.name in measure.of)

    def counting_place(self, part: FactTable) -> int | None:
        """Return the index of a measure to which each row of a table adds 1; None without one."""
        for index, measure in enumerate(self.measures):
            # A measure without conditions has those of the fact.
            if measure.kind == "count" and not measure.where and part.name in measure.of:
                return index
        return None

    def summed_columns(self, part: FactTable) -> tuple[str, ...]:
        """Return the columns, as the declaration calls them, that are summed in a table."""
        measures = self.measures_of(part)
        return tuple(dict.fromkeys(column for measure in measures for column in measure.columns))

    def conditions(self, part: FactTable) -> tuple[Condition, ...]:
        """Return the conditions on a table's rows: the fact's, then those of its measures."""
        own = (condition for measure in self.measures_of(part) for condition in measure.where)
        return tuple(dict.fromkeys((*self.where, *own)))

    def used_columns(self, part: FactTable) -> tuple[str, ...]:
        """Return the columns, as the declaration calls them, that an image of the table needs."""
        dimensions = (dimension.column for dimension in self.dimensions)
        conditions = (condition.column for condition in self.conditions(part))
        columns = (*dimensions, *self.summed_columns(part), *conditions)
        return tuple(dict.fromkeys(column for column in columns if column is not None))

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
        keys = (dimension.column for dimension in self.key_dimensions)
        return tuple(part.column(column) for column in keys if column is not None)


class QueryFact(Fact):
    """A model whose file is a query: PostgreSQL alone knows what it means."""

    def identity_columns(self, part: FactTable) -> tuple[str, ...]:
        """Return the table's columns that every old image has to carry: of rows the key alone."""
        identity = self.declaration.get("identity")
        return self.needed_columns(part) if identity is None else tuple(identity)

    def counting_place(self, part: FactTable) -> int | None:
        """Return the index of what is kept that says how many rows a group has."""
        names = [measure.name for measure in self.measures]
        return names.index(self.declaration["rows"]) if names else None

    def used_columns(self, part: FactTable) -> tuple[str, ...]:
        """Return the columns of a table on whose values the query's result depends."""
        return tuple(
            column["name"]
            for source in self.declaration["sources"]
            for column in source["columns"]
            if source["table"] == part.name and column["is_needed"]
        )


def _parse_query(name: str, relation: Table, declaration: Declaration) -> QueryFact:
    tables = tuple(
        FactTable(
            source["table"],
            Table(source["schema"], source["table"].removeprefix(f"{source['schema']}.")),
            "ignore" if source["keeps_deleted"] else "count",
            {},
        )
        for source in declaration["sources"]
    )
    blank: dict[str, Any] = {attribute.name: None for attribute in fields(Dimension)}
    blank |= {"kind": "column", "nulls": "count"}
    is_rows = declaration["kind"] == "rows"
    columns = [*declaration["keys"], *(declaration["kept"] if is_rows else ())]
    dimensions = (
        Dimension(**blank | {"name": own["name"], "type": own["type"], "value_type": own["type"]})
        for own in columns
    )
    names = tuple(part.name for part in tables)
    measures = (
        Measure(
            kept["name"],
            "value" if "again" in kept else "sum" if "counted_by" in kept else "count",
            *((), names, kept["type"], ()),
        )
        for kept in (() if is_rows else declaration["kept"])
    )
    return QueryFact(
        *(name, relation, "current_rows" if is_rows else "fact", tables),
        *(tuple(dimensions), tuple(measures), ()),
        tuple(key["name"] for key in declaration["keys"]) if is_rows else (),
        declaration,
    )


def parse(name: str, relation: Table, declaration: Declaration) -> Fact:
    """Return the fact that a registered declaration describes."""
    if "query" in declaration:
        return _parse_query(name, relation, declaration)
    return Fact(
        name,
        relation,
        declaration["kind"],
        tuple(
            FactTable(
                part["name"], Table(part["schema"], part["table"]), part["deletes"], part["columns"]
            )
            for part in declaration["tables"]
        ),
        tuple(
            Dimension(
                **{**column, "path": tuple(column["path"]), "bounds": tuple(column["bounds"])}
            )
            for column in declaration["dimensions"]
        ),
        tuple(
            Measure(
                **{
                    **measure,
                    "columns": tuple(measure["columns"]),
                    "of": tuple(measure["of"]),
                    "where": _conditions(measure["where"]),
                }
            )
            for measure in declaration["measures"]
        ),
        _conditions(declaration["where"]),
        tuple(declaration["key"]),
        declaration,
    )


def parse_roll_up(name: str, relation: Table, installed: Declaration) -> Fact:
    """Return the roll-up that dbt has installed.

    Raises SettingError for a text that is no plain type: it becomes part of a reader's SQL, and the
    role that installs roll-ups must not execute anything as the reader.
    """
    for column in (*installed["dimensions"], *installed["measures"], *installed["values"]):
        if not _TYPE.fullmatch(column["type"]):
            raise SettingError(
                f"A column of the roll-up {name} has {escaped(column['type'])} for a type",
                "`dbt build` installs it again",
            )
    blank: dict[str, Any] = {attribute.name: None for attribute in fields(Dimension)}
    blank |= {"kind": "column", "nulls": "count"}
    dimensions = (
        Dimension(**blank | {"name": column["name"], "type": column["type"]})
        for column in installed["dimensions"]
    )
    measures = (
        Measure(measure["name"], measure["kind"], (), (), measure["type"], ())
        for measure in installed["measures"]
    )
    return Fact(
        name, relation, "roll_up", (), tuple(dimensions), tuple(measures), (), (), installed
    )


def _conditions(declared: Iterable[Declaration]) -> tuple[Condition, ...]:
    return tuple(
        Condition(test["column"], test["test"], tuple(test["values"]), test["is_null"])
        for test in declared
    )


def digits_of(type_: str) -> tuple[int, int] | None:
    """Return how many digits `numeric(p, s)` has, and how many decimals; None for other types."""
    match = _NUMERIC.fullmatch(type_)
    return match and (int(match[1]), int(match[2] or 0))


def source_tables(facts: Iterable[Fact]) -> tuple[Table, ...]:
    """Return every table that feeds one of the facts, each once."""
    return tuple(dict.fromkeys(part.table for fact in facts for part in fact.tables))


def needed_columns(facts: Iterable[Fact], table: Table) -> tuple[str, ...]:
    """Return the columns of a source table that any of the facts needs, each once."""
    by_part = (fact.needed_columns(part) for fact, part in _parts(facts, table))
    return tuple(dict.fromkeys(column for columns in by_part for column in columns))


def identity_columns(facts: Iterable[Fact], table: Table) -> tuple[str, ...]:
    """Return the columns that an old row of a source table must carry for the facts, each once."""
    by_part = (fact.identity_columns(part) for fact, part in _parts(facts, table))
    return tuple(dict.fromkeys(column for columns in by_part for column in columns))


def _parts(facts: Iterable[Fact], table: Table) -> Iterator[tuple[Fact, FactTable]]:
    return ((fact, part) for fact in facts for part in fact.tables if part.table == table)
