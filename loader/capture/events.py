"""What a run reports to its observers: once per batch, build or failure, never per change. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from loader.capture.position import Position
from waltally.errors import LoaderError


@dataclass(frozen=True)
class Following:
    """The slot is being streamed."""


@dataclass(frozen=True)
class Committed:
    """The position of record moved, with the rows of a batch or alone."""

    changes: int
    transactions: int
    """Source transactions that had changes in the batch."""
    seconds: float
    """From the batch's first row until its commit."""


@dataclass(frozen=True)
class Failed:
    """Following broke, whether it is tried again or ends the process."""

    error: LoaderError
    retried: bool


@dataclass(frozen=True)
class Built:
    """The models hold what was staged when the build began."""

    seconds: float
    freshness: dict[str, float] = field(default_factory=dict)
    """By model: how old, in seconds since its commit, the newest change is that became visible."""


@dataclass(frozen=True)
class BuildBroke:
    """A build failed; it is tried again with the next one."""

    error: LoaderError


Event = Following | Committed | Failed | Built | BuildBroke
Notify = Callable[[Event], None]


def ignore(event: Event) -> None:
    """Watch nothing."""


@dataclass
class RunState:
    """How far this run has come."""

    changes: int = 0
    batches: int = 0
    position: Position = field(default_factory=Position)
    """The newest session's."""
    check_encoding_to: int = 0
    """Changes up to this commit LSN are checked one by one for text that the target cannot hold."""
    open_since: float | None = None
    """When the batch that is not committed yet began, on the monotonic clock."""
    stored_at: float = 0.0
    """When the position was last stored, or the session began, on the monotonic clock."""
    newest_commit_at: float | None = None
    """When the newest change that is stored was committed, in seconds since 1970."""
    wal_end: int = 0
    """Where the source's WAL ended about a second ago; 0 where it is not known yet."""
    apply_due_at: float = 0.0
    """When the next build may begin, on the monotonic clock; 0 where none does."""

    @property
    def lag_bytes(self) -> int:
        """WAL of the source beyond the position of record."""
        return max(0, self.wal_end - self.position.stored)
