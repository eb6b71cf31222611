"""The timelines of a server's WAL. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from waltally import lsn


@dataclass(frozen=True)
class Timeline:
    """A server's timeline, and the positions where it left the former ones."""

    number: int
    left_at: Mapping[int, int] = field(default_factory=dict)
    """Empty for the first timeline, and where the history was not read."""

    @property
    def began_at(self) -> int | None:
        """Where it left the former timeline; None for the first one or without a history."""
        return self._began_at(self.number)

    def shared_with(self, number: int, began_at: int | None) -> int | None:
        """Return the position up to which this server has the WAL of timeline `number`.

        None means all of it: the server is on that timeline. 0 means that it never was. `began_at`
        is where that timeline left the former one: where two standbys of a server are promoted,
        both begin a timeline of the same number.
        """
        if number != self.number and number not in self.left_at:
            return 0
        here = self._began_at(number)
        if began_at is not None and here is not None and here != began_at:
            return min(here, began_at)
        return None if number == self.number else self.left_at[number]

    def _began_at(self, number: int) -> int | None:
        former = [earlier for earlier in self.left_at if earlier < number]
        return self.left_at[max(former)] if former else None


def parse_history(text: str) -> dict[int, int]:
    """Return the former timelines of a history file, and where each was left."""
    lines = [line.split("#")[0].split() for line in text.splitlines()]
    return {int(line[0]): lsn.parse(line[1]) for line in lines if line}
