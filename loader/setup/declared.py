"""What a dbt project declares, and how setup was asked to take it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from waltally.models import Model
from waltally.tables import Table

if TYPE_CHECKING:
    from loader.setup.query import Query


@dataclass(frozen=True)
class Declared:
    """What a dbt project declares."""

    project: str
    """Its name."""
    models: tuple[Model, ...]
    downstream: tuple[tuple[str, Table], ...] = ()
    """The models over models, name and table, which dbt installs; setup forgets the others."""
    forget: frozenset[str] = frozenset()
    """Registered models of other projects that may be forgotten."""
    failover: bool = False
    """Whether standbys shall keep the slot."""
    queries: tuple[Query, ...] = ()
    """The models that are queries; `compile_queries` makes models of them."""
    kinds: Mapping[str, str] = field(default_factory=dict)
    """By query what it is and how it is kept, in words."""
    readings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By query, its text, sources and options, as cdc.compile_query takes them."""
    shapes: Mapping[Table, Mapping[str, Any]] = field(default_factory=dict)
    """The columns and keys of the queries' tables."""
    take_slot: bool = False
    """Whether to take a slot that is there, and of which the target has no record."""
    source_is_gone: bool = False
    """Whether the source of the record is gone for good, so that its slot may be left."""

    @property
    def is_whole(self) -> bool:
        """Whether every query is compiled, and none was refused."""
        taken = {model.name for model in self.models} | {name for name, _ in self.downstream}
        return {query.name for query in self.queries} <= taken
