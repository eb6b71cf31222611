"""One record of what source and target say about a slot and its models. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from loader.source.server import ServerInfo
from loader.source.slot import SlotInfo
from loader.source.table import TableInfo
from loader.source.table_identity import TableIdentities
from loader.staging.logged_tables import Root
from loader.staging.records import ModelStatus, Registration, StoredState
from waltally.freshness import MAX_LAG_SECONDS
from waltally.models import Model
from waltally.tables import Table

IDLE_WAL_BYTES = 16 * 1024
"""Bytes of WAL that an idle loader may leave unconfirmed; less than this is no lag."""


@dataclass(frozen=True)
class Thresholds:
    """What counts as unhealthy: here and in ops/prometheus-alerts.yml."""

    lag_seconds: float = MAX_LAG_SECONDS
    wal_held_bytes: int = 8 * 2**30
    min_safe_wal_bytes: int = 2**30
    """Counts only where the slot also holds more than is left: the server's limit may be lower."""


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
    thresholds: Thresholds = field(default_factory=Thresholds)
    failover: bool = False
    """Whether standbys shall keep the slot."""
    take_slot: bool = False
    """Whether setup may take a slot that is there, and of which the target has no record."""

    @property
    def lag_bytes(self) -> int:
        """How much WAL of the source is after the position of record."""
        record = self.slot.record
        return 0 if record is None else max(0, self.slot.server.wal_end - record.position_lsn)

    @property
    def lag_seconds(self) -> float:
        """For how long the position has stood still although there is more."""
        stored = self.stored
        return 0.0 if stored is None or self.lag_bytes <= IDLE_WAL_BYTES else stored.moved_age

    @property
    def wal_held(self) -> int:
        """How much WAL the source keeps for the slot."""
        slot = self.slot.state
        return 0 if slot is None else slot.wal_held(self.slot.server.wal_end) or 0

    @property
    def stored_models(self) -> Sequence[ModelStatus]:
        """What is known of the models; nothing before setup."""
        return () if self.stored is None else self.stored.models

    @property
    def registered_models(self) -> list[ModelStatus]:
        """Those that are no copies in another schema, whose trouble is not theirs."""
        return [model for model in self.stored_models if model.is_registered]
