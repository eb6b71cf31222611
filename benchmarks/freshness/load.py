"""Writing at a steady rate, in single rows, at a rising rate, until all of it is visible."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass

from benchmarks import decoding
from benchmarks.freshness.delays import percentile, visible
from benchmarks.freshness.poller import Watcher
from benchmarks.freshness.writer import Writer
from benchmarks.loader_process import Building
from demo.cluster import Cluster

GROWTH, ALLOWANCE, CATCH_UP = 1.5, 0.5, 3.0
"""A lag is flat where its p95 grows at most so many times and so many seconds from the first third
to the last, and all is visible so many seconds after the last commit."""


@dataclass(frozen=True)
class Step:
    """One rate, held for a while."""

    asked: int
    reached: float
    """Changes a second that the writer managed."""
    changes: int
    lags: list[tuple[float, float]]
    """Of each transaction: seconds since the step began, seconds to visible."""
    first: float
    """p95 of the first third's lags, in seconds."""
    last: float
    """p95 of the last third's."""
    caught_up: float
    """Seconds from the last commit until it was visible."""
    slot: str
    end: str
    """Slot and end of the step's WAL."""

    @property
    def is_flat(self) -> bool:
        """Whether the lag stays where it is."""
        return self.last <= GROWTH * self.first + ALLOWANCE and self.caught_up <= CATCH_UP


class Bench:
    """The servers, the writer, the loader and the watcher, at work."""

    def __init__(self, writer: Writer, watcher: Watcher, loader: Building, source: Cluster) -> None:
        self.writer, self.watcher, self.loader, self.source = writer, watcher, loader, source

    def settle(self) -> None:
        """Wait until all that was committed is visible."""
        total = self.writer.inserted
        self.watcher.wait_for(lambda sight: sight.total >= total, self.loader.check)

    def steady(self, rate: int, seconds: float, each: int) -> slice:
        """Write at the rate; return the place of these transactions among all."""
        first = len(self.writer.committed)
        self.writer.keep_up(rate, seconds, each)
        self.settle()
        return slice(first, len(self.writer.committed))

    def singles(self, count: int, pauses: random.Random) -> slice:
        """Write single rows at times that no build knows; return their place."""
        first = len(self.writer.committed)
        for _ in range(count):
            time.sleep(pauses.uniform(1, 2))
            self.writer.write(1)
        self.settle()
        return slice(first, len(self.writer.committed))

    def step(self, rate: int, seconds: float, each: int) -> Step:
        """Hold a rate, with a slot of its own over its WAL, and wait until all is visible."""
        slot = f"decoding_{len(self.writer.committed)}"
        decoding.make_slot(self.source, slot)
        began, first = self.writer.changes, len(self.writer.committed)
        reached = self.writer.keep_up(rate, seconds, each)
        self.settle()
        committed = self.writer.committed[first:]
        lags = visible(committed, self.watcher.sights)
        third = max(len(lags) // 3, 1)
        at = [one.at - committed[0].at for one in committed]
        return Step(
            asked=rate,
            reached=reached,
            changes=self.writer.changes - began,
            lags=list(zip(at, lags, strict=True)),
            first=percentile(lags[:third], 0.95),
            last=percentile(lags[-third:], 0.95),
            caught_up=lags[-1],
            slot=slot,
            end=decoding.wal_end(self.source),
        )
