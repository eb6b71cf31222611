"""Who needs the change log: slots, models, readers and archives, as records. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from loader.staging.records import SlotPosition


@dataclass(frozen=True)
class Model:
    """A registered or installed model of a slot, with what fact_state says of it."""

    name: str
    """Its relation, as schema.name."""
    fact: str
    slot: str
    exists: bool
    """Whether its relation is there."""
    reason: str | None
    remedy: str | None
    is_rebuilt: bool
    """Whether the next apply starts from its baseline, whatever it holds by now."""
    applied_lsn: int | None
    baseline_lsn: int | None
    """Where its baseline was counted; None without one."""

    def awaits_seed(self, slot: SlotPosition) -> bool:
        """Whether others of the slot have a baseline and it has none.

        Its own will be newer than all that is in the log by now.
        """
        return self.baseline_lsn is None and slot.baseline_lsn is not None


@dataclass(frozen=True)
class Reader:
    """A program of somebody's own that reads the changes of a slot."""

    name: str
    slot: str
    applied_lsn: int


@dataclass(frozen=True)
class Archive:
    """A part of a slot's changes that spark/archive.py has copied: from_lsn <= LSN < to_lsn."""

    slot: str
    from_lsn: int
    to_lsn: int
    location: str = ""

    @property
    def place(self) -> str:
        """The folder, as it was given to the archive."""
        return self.location.removesuffix(f"/slot={self.slot}")


@dataclass(frozen=True)
class Consumers:
    """Who writes, applies, rebuilds from and archives the change log, read at one moment."""

    schema: str
    slots: tuple[SlotPosition, ...]
    models: tuple[Model, ...]
    readers: tuple[Reader, ...]
    archives: tuple[Archive, ...]
    still_seconds: Mapping[str, float] = field(default_factory=dict)
    """By slot, for how long its position has not moved."""

    def slots_starting_before(self, end: int) -> list[SlotPosition]:
        """Return the slots whose log has to be complete from a position before `end`."""
        return [slot for slot in self.slots if slot.start_lsn < end]

    def models_of(self, slot: SlotPosition) -> list[Model]:
        """Return the models that a slot feeds."""
        return [model for model in self.models if model.slot == slot.slot_name]
