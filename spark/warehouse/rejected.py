"""How many changes could not be counted. Pure: no driver."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Rejected:
    """How many changes could not be counted, and the position of the first one."""

    count: int
    first_lsn: int | None

    def and_then(self, later: Rejected) -> Rejected:
        """Return both together."""
        first = later.first_lsn if self.first_lsn is None else self.first_lsn
        return Rejected(self.count + later.count, first)
