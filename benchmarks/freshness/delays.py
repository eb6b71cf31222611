"""How far the target is behind: from what was committed and what was seen, and when."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from benchmarks.freshness.poller import Sight
from benchmarks.freshness.writer import Committed


class Lag(NamedTuple):
    """Where one transaction's time went, in seconds; the parts add up to its freshness."""

    staging: float
    """From its commit's return until the position of record was seen past it."""
    waiting: float
    """From there until the build that took it in began its transaction; below zero where that
    had begun before and had not yet asked for the position."""
    building: float
    """From there until the first look that found it in the fact."""

    @property
    def visible(self) -> float:
        """From commit to the first look that found it in the fact."""
        return self.staging + self.waiting + self.building


def visible(committed: Sequence[Committed], sights: Sequence[Sight]) -> list[float]:
    """Return each transaction's seconds from commit to fact; all of them must have been seen."""
    seen = iter(sights)
    sight = next(seen)
    found = []
    for transaction in committed:
        while sight.total < transaction.total:
            sight = next(seen)
        found.append(sight.at - transaction.at)
    return found


def parts(
    committed: Sequence[Committed], commit_lsns: Sequence[int], sights: Sequence[Sight]
) -> Iterator[Lag]:
    """Yield each transaction's lag in parts; `commit_lsns` are the change log's, in order.

    Raises RuntimeError where the log has other transactions than were committed.
    """
    if len(committed) != len(commit_lsns):
        raise RuntimeError(f"{len(commit_lsns)} transactions staged of {len(committed)}")
    stagings, buildings = iter(sights), iter(sights)
    staged, built = next(stagings), next(buildings)
    for transaction, position in zip(committed, commit_lsns, strict=True):
        while staged.position <= position:
            staged = next(stagings)
        while built.applied <= position:
            built = next(buildings)
        if built.total < transaction.total:
            raise RuntimeError(f"the watermark has passed {transaction}, the fact has not: {built}")
        yield Lag(
            staging=staged.at - transaction.at,
            waiting=built.build_began - staged.at,
            building=built.at - built.build_began,
        )


def percentile(seconds: Sequence[float], share: float) -> float:
    """Return the value that `share` (0 to 1) of the values do not exceed."""
    ordered = sorted(seconds)
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)]


def summary(seconds: Sequence[float]) -> dict[str, float]:
    """Return mean, median, percentiles and maximum, in milliseconds."""
    return {
        "mean ms": statistics.fmean(seconds) * 1000,
        "p50 ms": percentile(seconds, 0.5) * 1000,
        "p95 ms": percentile(seconds, 0.95) * 1000,
        "p99 ms": percentile(seconds, 0.99) * 1000,
        "max ms": max(seconds) * 1000,
    }
