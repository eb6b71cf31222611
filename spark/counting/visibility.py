"""Which transactions a snapshot takes for finished, and which of them are not.

A transaction's commit record can lie below a slot's consistent point while its backend has not yet
marked it committed, for instance on a slow disk. The exported snapshot takes it for finished, a
reader would not see its rows, and the stream after the point does not bring them: they would be
lost. So nothing is read until no such transaction is left.

PostgreSQL 15.20, and the other majors' releases of the same date, wait for such transactions before
they give out the snapshot: there nothing is left to wait for. 15.18 does not wait.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Visibility:
    """The text of `pg_current_snapshot()`; of a slot's snapshot, xmin may exceed xmax."""

    xmin: int
    xmax: int
    running: frozenset[int]

    @classmethod
    def parse(cls, text: str) -> Visibility:
        """Read `xmin:xmax:xid,xid`. Raises ValueError for other text."""
        xmin, xmax, running = text.split(":")
        return cls(int(xmin), int(xmax), frozenset(int(xid) for xid in running.split(",") if xid))

    def takes_for_finished(self, xid: int) -> bool:
        """Say what the server's own visibility check says, in its order of questions."""
        return xid < self.xmin or (xid < self.xmax and xid not in self.running)


def unfinished(imported: Visibility, live: Visibility) -> list[int]:
    """Return the transactions that `imported` takes for finished and `live` does not know ended.

    From its xmax on, a live snapshot lists nothing: all of those may be running.
    """
    unlisted = range(live.xmax, max(imported.xmin, imported.xmax))
    return [xid for xid in (*sorted(live.running), *unlisted) if imported.takes_for_finished(xid)]
