"""The models that a slot feeds, as PostgreSQL has compiled their queries. Pure.

A declaration is what cdc.compile_query gives: `loader setup` registers it; loader and Spark read
nothing else. Spark's executors import this.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from waltally.tables import Table

Declaration = Mapping[str, Any]
"""As JSON."""


@dataclass(frozen=True)
class ModelTable:
    """A source table that feeds a model."""

    name: str
    """schema.name, as the declaration has it."""
    table: Table
    ignores_deletes: bool
    """Whether a deleted row stays counted."""


@dataclass(frozen=True)
class Column:
    """A column that tells a model's groups or rows apart, or of rows any other one."""

    name: str
    type: str


@dataclass(frozen=True)
class Measure(Column):
    """What a model keeps of a group: a number of rows or values, a sum, or any other value."""

    kind: Literal["count", "sum", "value"]


@dataclass(frozen=True)
class Model:
    """A model."""

    name: str
    relation: Table
    """The model's table; `str(relation)` is its key in model_watermark."""
    declaration: Declaration

    @property
    def kind(self) -> str:
        """`rows`, `model` or `roll-up`."""
        return str(self.declaration["kind"])

    @cached_property
    def tables(self) -> tuple[ModelTable, ...]:
        """The source tables; none of a model over models."""
        return tuple(
            ModelTable(
                source["table"],
                Table(source["schema"], source["table"].removeprefix(f"{source['schema']}.")),
                source["keeps_deleted"],
            )
            for source in self.declaration["sources"]
        )

    @cached_property
    def dimensions(self) -> tuple[Column, ...]:
        """The keys; of rows every column."""
        others = self.declaration["state_columns"] if self.kind == "rows" else ()
        return tuple(
            Column(own["name"], own["type"]) for own in (*self.declaration["keys"], *others)
        )

    @cached_property
    def measures(self) -> tuple[Measure, ...]:
        """The state columns of a group; nothing of rows."""
        return tuple(
            Measure(
                own["name"],
                own["type"],
                "value" if "again" in own else "sum" if "counted_by" in own else "count",
            )
            for own in (() if self.kind == "rows" else self.declaration["state_columns"])
        )

    @property
    def counting_ordinal(self) -> int | None:
        """The index of the measure that says how many rows a group has; None of rows."""
        names = [measure.name for measure in self.measures]
        return names.index(self.declaration["rows"]) if names else None

    def needed_columns(self, part: ModelTable) -> tuple[str, ...]:
        """Return the columns of a table on whose values the query's result depends."""
        return tuple(
            column["name"]
            for source in self.declaration["sources"]
            for column in source["columns"]
            if source["table"] == part.name and column["is_needed"]
        )

    @property
    def needed(self) -> dict[str, tuple[str, ...]]:
        """The columns that it needs of each of its tables, by `schema.name`."""
        return {str(table): needed_columns([self], table) for table in source_tables([self])}

    def identity_columns(self, part: ModelTable) -> tuple[str, ...]:
        """Return the columns that every old image of a table must carry: of rows the key alone."""
        identity = self.declaration.get("identity")
        return self.needed_columns(part) if identity is None else tuple(identity)


def source_tables(models: Iterable[Model]) -> tuple[Table, ...]:
    """Return every table that feeds one of the models, each once."""
    return tuple(dict.fromkeys(part.table for model in models for part in model.tables))


def needed_columns(models: Iterable[Model], table: Table) -> tuple[str, ...]:
    """Return the columns of a source table that any of the models needs, each once."""
    by_part = (model.needed_columns(part) for model, part in _parts(models, table))
    return tuple(dict.fromkeys(column for columns in by_part for column in columns))


def identity_columns(models: Iterable[Model], table: Table) -> tuple[str, ...]:
    """Return the columns that an old row of a source table must carry for the models, each once."""
    by_part = (model.identity_columns(part) for model, part in _parts(models, table))
    return tuple(dict.fromkeys(column for columns in by_part for column in columns))


def _parts(models: Iterable[Model], table: Table) -> Iterator[tuple[Model, ModelTable]]:
    return ((model, part) for model in models for part in model.tables if part.table == table)
