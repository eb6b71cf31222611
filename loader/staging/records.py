"""What the staging tables say of a slot, as records. Pure: no driver."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from waltally.tables import Table


@dataclass(frozen=True)
class SlotPosition:
    """A slot's row in slot_position."""

    slot_name: str
    system_identifier: str
    source_database: str
    start_lsn: int
    position_lsn: int
    tables: tuple[Table, ...] = ()
    """The registered tables: the live one, its archive, then those that are only logged."""
    stored_changes: int = 0


@dataclass(frozen=True)
class ModelState:
    """A row of model_watermark."""

    name: str
    applied_lsn: int
    moved_at: datetime
    is_behind: bool
    """Whether more is staged than it has applied."""
    rejected_lsn: int | None
    """The newest change that it could not count; None where none is known."""
    rejected_count: int | None
    """How many changes it could not count; None where this role may not read the list."""
    left_out: dict[str, int] | None
    """By part, the rows that belong to no group as a dimension is null; None where unknown."""
    seed_id: str | None
    """The baseline that it was built on; None where it was built on none."""
    lacks_seed: bool
    """Whether its counts are partial: it needs a baseline and has none."""


@dataclass(frozen=True)
class TargetState:
    """What the target holds of a slot. All times but newest_commit_at are the target's."""

    record: SlotPosition
    asked_at: datetime
    moved_at: datetime
    last_error: str | None
    last_error_at: datetime | None
    newest_commit_at: datetime | None
    seed_id: str | None
    """The slot's newest baseline; None where none was ever taken."""
    rejected_in_seed: dict[str, int] | None
    """By reason, the rows that it could not count; None where this role may not read it."""
    models: list[ModelState]

    def age(self, moment: datetime) -> float:
        """Return how long ago the moment was when the target was asked, in seconds."""
        return max(0.0, round((self.asked_at - moment).total_seconds(), 1))
