"""Watches the target from beside: what is staged and what is visible, every few milliseconds."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from threading import Event, Thread
from types import TracebackType
from typing import NamedTuple

import psycopg2

MODEL = "analytics.ft_service_stats"

_POLL = 0.01
_PATIENCE = 180.0

_IS_BUILT = "select to_regclass(%s) is not null"

# One statement, so one snapshot.
_LOOK = f"""
select
    (select coalesce(sum(live_count), 0)::bigint from {MODEL}),
    (position.position_lsn - '0/0')::bigint,
    (watermark.applied_lsn - '0/0')::bigint,
    extract(epoch from watermark.moved_at)::float
from cdc.slot_position as position
inner join cdc.model_watermark as watermark using (slot_name)
where position.slot_name = %s and watermark.model_name = '{MODEL}'
"""


class Sight(NamedTuple):
    """What one look at the target found; positions in bytes of WAL."""

    at: float
    """When the answer was there, on this machine's clock."""
    total: int
    """The sum of the fact's live counts."""
    position: int
    """Every transaction with a commit LSN below it is staged."""
    applied: int
    """Every transaction with a commit LSN below it is in the fact."""
    build_began: float
    """When the build that made the fact so began its transaction."""


class Watcher:
    """A thread that looks every 10 ms, once the fact is there; it keeps what differs."""

    def __init__(self, dsn: str, slot: str) -> None:
        """Prepare to watch the target at `dsn`."""
        self._dsn, self._slot = dsn, slot
        self._stop = Event()
        self._thread = Thread(target=self._run, name="watcher", daemon=True)
        self._failure: Exception | None = None
        self.sights: list[Sight] = []

    def __enter__(self) -> Watcher:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join()

    def wait_for(self, reached: Callable[[Sight], bool], check: Callable[[], None]) -> Sight:
        """Return the newest sight once it has reached it; `check` raises where none ever will.

        Raises RuntimeError after three minutes.
        """
        patience = time.monotonic() + _PATIENCE
        while not self.sights or not reached(self.sights[-1]):
            if self._failure is not None:
                raise RuntimeError(f"the watcher failed: {self._failure}")
            if time.monotonic() > patience:
                last = self.sights[-1] if self.sights else "nothing"
                raise RuntimeError(f"not reached in {_PATIENCE:.0f} s; seen last: {last}")
            check()
            time.sleep(_POLL)
        return self.sights[-1]

    def _run(self) -> None:
        try:
            with closing(psycopg2.connect(self._dsn)) as connection:
                connection.autocommit = True
                with connection.cursor() as cursor:
                    built = False
                    while not self._stop.wait(_POLL):
                        if not built:
                            cursor.execute(_IS_BUILT, (MODEL,))
                            built = cursor.fetchall() == [(True,)]
                            continue
                        cursor.execute(_LOOK, (self._slot,))
                        for found in cursor.fetchall():
                            sight = Sight(time.time(), *found)
                            if not self.sights or sight[1:] != self.sights[-1][1:]:
                                self.sights.append(sight)
        except Exception as failure:
            # Told by wait_for: a thread's exception reaches nobody.
            self._failure = failure
