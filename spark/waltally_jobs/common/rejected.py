"""What of a model's changes could not be counted. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Rejected:
    """How many changes could not be counted, and the position of the first one."""

    count: int
    first_lsn: int | None
