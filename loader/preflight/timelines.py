"""Whether a server's WAL continues the one that was followed. Pure.

A promotion, and a restore from an archive, begin a new timeline at the position that was reached.
The system identifier stays. Whatever the former timeline had beyond that position is not in the
server's history, also when the new timeline has grown past the position since.
Source: PostgreSQL documentation, "Timelines" and "Streaming Replication Protocol".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from waltally import lsn


@dataclass(frozen=True)
class Timeline:
    """The timeline that a server is on, and where it left the former ones."""

    number: int
    left_at: Mapping[int, int] = field(default_factory=dict)
    """Empty for the first timeline, and where the history was not asked for."""

    @property
    def began_at(self) -> int | None:
        """Where it left the former timeline; None where there is none, or it is not known."""
        return self._began_at(self.number)

    def shared_with(self, number: int, began_at: int | None) -> int | None:
        """Return up to where the WAL of timeline `number` is in this server's history.

        `began_at` is where that timeline left the former one: two standbys of one server that are
        promoted both begin a timeline of the next number. None means all of it: the server is on
        that timeline. 0 means that it never was.
        """
        if number != self.number and number not in self.left_at:
            return 0
        here = self._began_at(number)
        if began_at is not None and here is not None and here != began_at:
            return min(here, began_at)
        return None if number == self.number else self.left_at[number]

    def _began_at(self, number: int) -> int | None:
        former = [each for each in self.left_at if each < number]
        return self.left_at[max(former)] if former else None


def read_timeline(number: int, ask: Callable[[str], Sequence[object]]) -> Timeline:
    """Return the timeline that the server is on, with where it left the former ones.

    `ask` executes a command of the replication protocol and returns its row; its errors pass.
    """
    # The first timeline comes from none, and has no history.
    if number == 1:
        return Timeline(number)
    _, history = ask(f"TIMELINE_HISTORY {number}")
    return Timeline(number, parse_history(str(history)))


def parse_history(text: str) -> dict[int, int]:
    """Return what a timeline's history file says: each former timeline and where it was left."""
    lines = [line.split("#")[0].split() for line in text.splitlines()]
    return {int(line[0]): lsn.parse(line[1]) for line in lines if line}
