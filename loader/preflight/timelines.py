"""Whether a server's WAL continues the one that was followed. Pure.

A promotion, and a restore from an archive, begin a new timeline at the position that was reached.
The system identifier stays. Whatever the former timeline had beyond that position is not in the
server's history, also when the new timeline has grown past the position since.
Source: PostgreSQL documentation, "Timelines" and "Streaming Replication Protocol".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from waltally import lsn


@dataclass(frozen=True)
class Timeline:
    """The timeline that a server is on, and where it left the former ones."""

    number: int
    left_at: Mapping[int, int] = field(default_factory=dict)

    def shared_with(self, number: int) -> int | None:
        """Return up to where the WAL of timeline `number` is in this server's history.

        None means all of it: the server is on that timeline. 0 means that it never was.
        """
        return None if number == self.number else self.left_at.get(number, 0)


def parse_history(text: str) -> dict[int, int]:
    """Return what a timeline's history file says: each former timeline and where it was left."""
    lines = [line.split("#")[0].split() for line in text.splitlines()]
    return {int(line[0]): lsn.parse(line[1]) for line in lines if line}
