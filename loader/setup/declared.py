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

    models: tuple[Model, ...] = ()
    failover: bool = False
    """Whether standbys shall keep the slot."""
    queries: tuple[Query, ...] = ()
    """The models that are queries; `compile_queries` makes models of them."""
    installed: frozenset[str] = frozenset()
    """Names of the models that dbt has installed for the slot."""
    kinds: Mapping[str, str] = field(default_factory=dict)
    """By query what it is and how it is kept, in words."""
    shapes: Mapping[Table, Mapping[str, Any]] = field(default_factory=dict)
    """The columns and keys of the queries' tables."""
    take_slot: bool = False
    """Whether to take a slot that is there, and of which the target has no record."""
    source_is_gone: bool = False
    """Whether the source of the record is gone for good, so that its slot may be left."""
