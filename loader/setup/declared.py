"""What a dbt project declares, and how setup was asked to take it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from waltally.facts import Fact
from waltally.tables import Table

if TYPE_CHECKING:
    from loader.setup.query import Query


@dataclass(frozen=True)
class Declared:
    """What a dbt project declares."""

    project: str
    """Its name."""
    facts: tuple[Fact, ...]
    roll_ups: tuple[tuple[str, Table], ...] = ()
    """The declared roll-ups, name and table, which dbt installs; setup forgets the others."""
    derived: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """By fact and derived column, its SQL expression of the measures."""
    forget: frozenset[str] = frozenset()
    """Registered facts of other projects that may be forgotten."""
    failover: bool = False
    """Whether standbys shall keep the slot."""
    queries: tuple[Query, ...] = ()
    """The models that are queries; `compile_queries` makes facts of them."""
    elsewhere: Mapping[str, str] = field(default_factory=dict)
    """By model that is a query, another slot that its sources are of."""
    readings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By query, its text, sources and options, as cdc.compile_query takes them."""
    shapes: Mapping[Table, Mapping[str, Any]] = field(default_factory=dict)
    """The columns and keys of the queries' tables."""
    take_slot: bool = False
    """Whether to take a slot that is there, and of which the target has no record."""
    source_is_gone: bool = False
    """Whether the source of the record is gone for good, so that its slot may be left."""

    def of_slot(self, slot: str, default: str) -> Declared:
        """Return what is declared without the queries whose sources are of another slot.

        A source that names none is of the `default`, or of any slot that no source names.
        """
        is_named = any(query.slot == slot for query in self.queries)
        unnamed = default if is_named else slot
        slots = {query.name: query.slot or unnamed for query in self.queries}
        return replace(
            self,
            queries=tuple(query for query in self.queries if slots[query.name] == slot),
            elsewhere={name: other for name, other in slots.items() if other != slot},
        )
