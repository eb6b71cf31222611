"""Who needs the change log: slots, facts, rebuilds and archives, as records. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from loader.staging.records import SlotPosition


@dataclass(frozen=True)
class Watermark:
    """How far a model has applied a slot's changes, and whether its relation is there at all."""

    model: str
    slot: str
    applied_lsn: int
    exists: bool
    awaits_seed_of: str | None = None
    """The fact that it is of, where that is declared otherwise since: builds leave it as it is."""


@dataclass(frozen=True)
class RegisteredFact:
    """A fact that a slot feeds."""

    name: str
    slot: str
    relation: str
    baseline_lsn: int | None
    """The position of the baseline that a rebuild would start from; None without one."""
    is_slot_seeded: bool
    """Whether any fact of the slot has a baseline: then this one needs its own."""

    @property
    def awaits_seed(self) -> bool:
        """Whether only a new seed can fill it: nothing that is in the log by now helps it."""
        return self.baseline_lsn is None and self.is_slot_seeded


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
    watermarks: tuple[Watermark, ...]
    facts: tuple[RegisteredFact, ...]
    archives: tuple[Archive, ...]
    still_seconds: Mapping[str, float] = field(default_factory=dict)
    """By slot, for how long its position has not moved."""

    def slots_starting_before(self, end: int) -> list[SlotPosition]:
        """Return the slots whose log has to be complete from a position before `end`."""
        return [slot for slot in self.slots if slot.start_lsn < end]

    def facts_of(self, slot: SlotPosition) -> list[RegisteredFact]:
        """Return the facts that a slot feeds."""
        return [fact for fact in self.facts if fact.slot == slot.slot_name]
