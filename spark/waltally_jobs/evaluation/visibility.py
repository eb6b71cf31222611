"""Which transactions a slot's snapshot takes for finished. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Visibility:
    """The text of `pg_current_snapshot()`; of a slot's snapshot, xmin may exceed xmax.

    A transaction's commit record can lie below a slot's consistent point while its backend has not
    yet marked it committed, for instance because of a slow disk. The exported snapshot takes it for
    finished, but a reader does not see its rows, and the stream after the point does not have them
    either: they would be lost. So nothing is read while such a transaction runs.

    PostgreSQL 15.20 and later, and the other majors' releases of the same date, wait for such
    transactions before they export the snapshot. 15.18 does not wait.
    """

    xmin: int
    xmax: int
    running: frozenset[int]

    @classmethod
    def parse(cls, text: str) -> Visibility:
        """Read `xmin:xmax:xid,xid`. Raises ValueError for other text."""
        xmin, xmax, running = text.split(":")
        return cls(int(xmin), int(xmax), frozenset(int(xid) for xid in running.split(",") if xid))

    def takes_for_finished(self, xid: int) -> bool:
        """Return what the server's own visibility check returns; the order of tests is the same."""
        return xid < self.xmin or (xid < self.xmax and xid not in self.running)


def unfinished(imported: Visibility, live: Visibility) -> list[int]:
    """Return the transactions that are finished in `imported` and may still run in `live`.

    A live snapshot lists no transaction from its xmax on: all of those may be running.
    """
    unlisted = range(live.xmax, max(imported.xmin, imported.xmax))
    return [xid for xid in (*sorted(live.running), *unlisted) if imported.takes_for_finished(xid)]
