"""Reads from the target every few milliseconds what is staged and what is visible."""

from __future__ import annotations

import select
import time
from collections.abc import Callable
from contextlib import closing
from threading import Event, Thread
from typing import NamedTuple

from benchmarks.workload import MODEL
from testkit.servers import connect
from testkit.waiting import wait_until

_POLL = 0.01
_PATIENCE = 180.0

_IS_BUILT = "select to_regclass(%s) is not null"

# One statement, so one snapshot.
_QUERY = f"""
select
    (select coalesce(sum(live_count), 0)::bigint from {MODEL}),
    (position.position_lsn - '0/0')::bigint,
    (watermark.applied_lsn - '0/0')::bigint,
    extract(epoch from watermark.moved_at)::float
from cdc.slot_position as position
inner join cdc.model_watermark as watermark using (slot_name)
where position.slot_name = %s and watermark.relation = '{MODEL}'
"""


class Observation(NamedTuple):
    """What one query found at the target; positions in bytes of WAL."""

    at: float
    """When the answer was there, on this machine's clock."""
    total: int
    """The sum of the model's live counts."""
    position: int
    """Every transaction with a commit LSN below it is staged."""
    applied: int
    """Every transaction with a commit LSN below it is in the model."""
    build_began: float
    """When the build that produced this state of the model began its transaction."""


class TargetPoller:
    """A thread that queries when told of an apply, and every 10 ms; it keeps each new state."""

    def __init__(self, dsn: str, slot: str) -> None:
        """Prepare to poll the target at `dsn`."""
        self._dsn, self._slot = dsn, slot
        self._stop = Event()
        self._thread = Thread(target=self._run, name="poller", daemon=True)
        self._failure: Exception | None = None
        self.observations: list[Observation] = []

    def __enter__(self) -> TargetPoller:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def wait_for(
        self, reached: Callable[[Observation], bool], check: Callable[[], None]
    ) -> Observation:
        """Return the first observation that `reached` accepts; `check` raises where none can come.

        Raises AssertionError after three minutes.
        """

        def is_seen() -> bool:
            if self._failure is not None:
                raise RuntimeError(f"the poller failed: {self._failure}")
            check()
            return bool(self.observations) and reached(self.observations[-1])

        wait_until(is_seen, "the model has what was written", _PATIENCE, _POLL)
        return self.observations[-1]

    def _run(self) -> None:
        try:
            with closing(connect(self._dsn)) as connection, connection.cursor() as cursor:
                built = False
                cursor.execute("listen waltally")
                while not self._stop.is_set():
                    # Told of each apply; the poll in between sees what is staged.
                    select.select([connection], [], [], _POLL)
                    connection.poll()
                    connection.notifies.clear()
                    if not built:
                        cursor.execute(_IS_BUILT, (MODEL,))
                        built = cursor.fetchall() == [(True,)]
                        continue
                    cursor.execute(_QUERY, (self._slot,))
                    for found in cursor.fetchall():
                        observation = Observation(time.time(), *found)
                        if not self.observations or observation[1:] != self.observations[-1][1:]:
                            self.observations.append(observation)
        except Exception as failure:
            # wait_for raises it: nobody sees an exception of a thread.
            self._failure = failure
