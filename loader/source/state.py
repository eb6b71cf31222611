"""What source and target say of a slot and of the tables of its facts, as one record. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from loader.source.server import ServerInfo
from loader.source.slot import SlotInfo
from loader.source.table import TableInfo
from loader.source.table_identity import TableIdentities
from loader.staging.logged_tables import Root
from loader.staging.records import Registration, StoredState
from waltally.errors import NotSetUp
from waltally.facts import Fact
from waltally.tables import Table


@dataclass(frozen=True)
class State:
    """One look at everything that findings are rules over. `read_state` fills it."""

    server: ServerInfo
    slot: SlotInfo
    facts: tuple[Fact, ...]
    """Those that the tables were asked for: the declared ones, or the registered ones."""
    tables: tuple[TableInfo, ...]
    roots: Mapping[Table, Root]
    """Those of the tables that are partitioned."""
    narrow_leaves: Mapping[Table, list[TableInfo]]
    """Their leaves whose replica identity lacks something that the facts need."""
    identities: TableIdentities
    """What tells the tables from others of the same names."""
    target_encoding: str = "UTF8"
    unknown_zones: frozenset[str] = frozenset()
    """Time zones of the facts that the target does not know."""
    other_slots: Mapping[str, str] = field(default_factory=dict)
    """By fact, another slot that feeds it."""
    without_identity: tuple[Table, ...] = ()
    """Tables of ours that a publication of the target has, and that lack a replica identity."""
    missing_measures: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """By fact and derived column, why its expression names a measure that is not there."""
    registration: Registration = field(default_factory=lambda: Registration(0, (), {}))
    counted: Mapping[str, TableIdentities] = field(default_factory=dict)
    """By registered fact, the tables that it counted."""
    other_functions: NotSetUp | None = None
    """What is said of the target's functions where they are another version's."""
    stored: StoredState | None = None
    """Positions and facts, where they were asked for and the slot is set up."""
