"""What the staging tables say of a slot, as records. Pure: no driver."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from waltally.facts import Fact, source_tables
from waltally.followed import Followed
from waltally.leaves import Root
from waltally.tables import Table


@dataclass(frozen=True)
class SlotPosition:
    """A slot's row in slot_position."""

    slot_name: str
    system_identifier: str
    source_database: str
    start_lsn: int
    position_lsn: int
    stored_changes: int = 0
    timeline: int | None = None
    """The timeline of the source's WAL that the position is of; None where it is not known yet."""
    timeline_began_lsn: int | None = None
    """Where that timeline left the former one; None for the first, and where it is not known."""
    on_standby: bool = False
    """Whether the slot that was last followed was on a standby; its primary does not show it."""
    baseline_lsn: int | None = None
    """Where the newest baseline of the slot's facts was counted; None where there is none."""


@dataclass(frozen=True)
class Registration:
    """What `loader setup` registered for a slot, and what its loader follows."""

    number: int
    """Grows whenever setup changes what is to be followed; 0 before the first time."""
    facts: tuple[Fact, ...]
    followed: Followed
    leaves: Mapping[Table, Root] = field(default_factory=dict)
    """The partitioned ones of the tables, as a session or setup last saw them."""

    @property
    def tables(self) -> tuple[Table, ...]:
        """Every table to be followed, each once."""
        return source_tables(self.facts)


@dataclass(frozen=True)
class Watermark:
    """A row of model_watermark: what a fact's relation holds."""

    applied_lsn: int
    moved_at: datetime
    rejected_lsn: int | None
    """The newest change that it could not count; None where it counted all."""
    rejected: dict[str, int] | None
    """By reason, the changes that it could not count; None where this role may not read them."""
    left_out: dict[str, int] | None
    """By table of the fact, the rows in no group as a dimension is null; None where unknown."""
    baseline_id: str | None
    """The baseline that it was built on; None where it was built on none."""
    waits_since: datetime | None = None
    """When the oldest change was staged that it has not applied; None where it is not behind."""
    newest_commit_at: datetime | None = None
    """When the newest change that it has applied was committed; None where none is in the log."""


@dataclass(frozen=True)
class Baseline:
    """A fact's row in baseline."""

    id: str
    snapshot_lsn: int
    counted_at: datetime
    rejected: dict[str, int] | None
    """By reason, the rows that it could not count; None where this role may not read it."""


@dataclass(frozen=True)
class FactState:
    """A registered fact, or a relation that another dbt target has installed of one."""

    fact_name: str
    relation: str
    is_registered: bool
    """Whether it is the relation that is registered for the fact."""
    rows: int | None
    """About how many rows the relation has; None where it does not exist."""
    state: str
    """`follows`, `waits` or `failed`, as the view fact_state says; so are reason and remedy."""
    reason: str | None
    remedy: str | None
    is_next: bool
    """Whether it waits for the next apply alone, so that nobody has to do anything."""
    watermark: Watermark | None
    """None before the first build."""
    baseline: Baseline | None

    @property
    def name(self) -> str:
        """What tells it from the others of the slot."""
        return self.fact_name if self.is_registered else self.relation

    @property
    def is_finding(self) -> bool:
        """Whether somebody has to do something about its state."""
        return self.reason is not None and not self.is_next


def say_state(name: str, state: str, reason: str | None) -> str:
    """Return what fact_state says of a model, as a clause: `ft_orders waits: ...`."""
    if reason is None:
        return f"{name} {state}"
    return f"{name} follows, but {reason}" if state == "follows" else f"{name} {state}: {reason}"


@dataclass(frozen=True)
class TargetState:
    """What the target holds of a slot. All times but newest_commit_at are the target's."""

    record: SlotPosition
    asked_at: datetime
    moved_at: datetime
    last_error: str | None
    last_error_at: datetime | None
    newest_commit_at: datetime | None
    registration: Registration
    facts: list[FactState]

    def age(self, moment: datetime) -> float:
        """Return how long ago the moment was when the target was asked, in seconds."""
        return max(0.0, round((self.asked_at - moment).total_seconds(), 1))
