"""What the writer writes: a steady rate, single rows, rising rates; each until it is visible."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass

from benchmarks import decoding
from benchmarks.freshness.delays import commit_to_visible, percentile
from benchmarks.freshness.poller import TargetPoller
from benchmarks.freshness.writer import PacedWriter
from benchmarks.loader_process import LoaderProcess
from testkit.servers import Cluster

GROWTH, ALLOWANCE, CATCH_UP = 1.5, 0.5, 3.0
"""A delay is flat where the p95 of the last third is at most GROWTH times that of the first third
plus ALLOWANCE seconds, and everything is visible CATCH_UP seconds after the last commit."""


@dataclass(frozen=True)
class Step:
    """One rate, held for a while."""

    asked: int
    reached: float
    """Changes per second that the writer managed."""
    changes: int
    first: float
    """p95 of the delays in the first third, in seconds."""
    last: float
    """The same in the last third."""
    caught_up: float
    """Seconds from the last commit until it was visible."""
    slot: str
    end: str
    """Slot and end of the step's WAL."""

    @property
    def is_flat(self) -> bool:
        """Whether the delay does not grow."""
        return self.last <= GROWTH * self.first + ALLOWANCE and self.caught_up <= CATCH_UP


class Load:
    """Writes through the writer, waits by the poller, and fails where the loader ends."""

    def __init__(
        self, writer: PacedWriter, poller: TargetPoller, loader: LoaderProcess, source: Cluster
    ) -> None:
        self.writer, self.poller, self.loader, self.source = writer, poller, loader, source

    def cpu_seconds(self) -> tuple[float, float]:
        """Return the CPU seconds so far of the loader and of its sessions at the server."""
        return self.loader.cpu_seconds, self.loader.sessions_cpu_seconds(self.source)

    def settle(self) -> None:
        """Wait until all that was committed is visible."""
        total = self.writer.inserted
        self.poller.wait_for(lambda observation: observation.total >= total, self.loader.check)

    def steady(self, rate: int, seconds: float, each: int) -> slice:
        """Write at the rate; return which of all transactions these are."""
        first = len(self.writer.committed)
        self.writer.write_at_rate(rate, seconds, each)
        self.settle()
        return slice(first, len(self.writer.committed))

    def singles(self, count: int, pauses: random.Random) -> slice:
        """Write single rows at random times; return which of all transactions these are."""
        first = len(self.writer.committed)
        for _ in range(count):
            time.sleep(pauses.uniform(1, 2))
            self.writer.write(1)
        self.settle()
        return slice(first, len(self.writer.committed))

    def step(self, rate: int, seconds: float, each: int) -> Step:
        """Hold a rate until everything is visible; a new slot keeps its WAL for decoding alone."""
        slot = f"decoding_{len(self.writer.committed)}"
        decoding.make_slot(self.source, slot)
        began, first = self.writer.changes, len(self.writer.committed)
        reached = self.writer.write_at_rate(rate, seconds, each)
        self.settle()
        committed = self.writer.committed[first:]
        delays = commit_to_visible(committed, self.poller.observations)
        third = max(len(delays) // 3, 1)
        return Step(
            asked=rate,
            reached=reached,
            changes=self.writer.changes - began,
            first=percentile(delays[:third], 0.95),
            last=percentile(delays[-third:], 0.95),
            caught_up=delays[-1],
            slot=slot,
            end=decoding.wal_end(self.source),
        )
