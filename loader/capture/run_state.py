"""How far a run has come. Pure: whoever shows it needs no driver."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class RunState:
    """What this run has stored so far."""

    changes: int = 0
    batches: int = 0
    position: int = 0
    check_encoding_to: int = 0
    """Changes up to this commit LSN are asked one by one whether the target can hold their text."""
    open_since: float | None = None
    """When the batch that is not committed yet began, on the monotonic clock."""
