"""One record of what source and target say about a slot and its models. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from loader.source.server import ServerInfo
from loader.source.slot import SlotInfo
from loader.source.table import TableInfo
from loader.source.table_identity import TableIdentities
from loader.staging.logged_tables import Root
from loader.staging.records import Registration, StoredState
from waltally.models import Model
from waltally.tables import Table


@dataclass(frozen=True)
class State:
    """Everything that findings are rules over, read at one time. `read_state` fills it."""

    schema: str
    """The staging schema."""
    server: ServerInfo
    slot: SlotInfo
    models: tuple[Model, ...]
    """The models that the tables were read for: declared or registered ones."""
    tables: tuple[TableInfo, ...]
    roots: Mapping[Table, Root]
    """The partitioned tables and their leaves."""
    narrow_leaves: Mapping[Table, list[TableInfo]]
    """Leaves whose replica identity lacks a column that the models need."""
    identities: TableIdentities
    """By table, what distinguishes it from another table of the same name."""
    target_encoding: str = "UTF8"
    target_database: str = ""
    unknown_zones: frozenset[str] = frozenset()
    """Time zones of the models that the target does not know."""
    other_slots: Mapping[str, str] = field(default_factory=dict)
    """By model, another slot that feeds it."""
    without_identity: tuple[Table, ...] = ()
    """Tables of ours that a publication of the target has, and that lack a replica identity."""
    registration: Registration = field(default_factory=lambda: Registration(0, (), {}))
    counted: Mapping[str, TableIdentities] = field(default_factory=dict)
    """By registered model, the tables that it counted."""
    has_other_functions: bool = False
    """Whether another version of waltally made the target's functions."""
    stored: StoredState | None = None
    """Positions of the slot and its models; None where not read, or the slot is not set up."""
