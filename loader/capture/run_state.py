"""How far a run has come. Pure: what shows it needs no driver."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class RunState:
    """What this run has stored so far."""

    changes: int = 0
    batches: int = 0
    position_lsn: int = 0
    check_encoding_to: int = 0
    """Changes up to this commit LSN are checked one by one for text that the target cannot hold."""
    open_since: float | None = None
    """When the batch that is not committed yet began, on the monotonic clock."""
    newest_commit_at: float | None = None
    """When the newest change that is stored was committed, in seconds since 1970."""
    wal_end: int = 0
    """Where the source's WAL ended about a second ago; 0 where it is not known yet."""

    @property
    def lag_bytes(self) -> int:
        """WAL of the source beyond the position of record."""
        return max(0, self.wal_end - self.position_lsn)
