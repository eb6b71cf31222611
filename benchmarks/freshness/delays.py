"""How long each transaction took to the model: what was committed, what was seen, and when."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from benchmarks.freshness.poller import Observation
from benchmarks.freshness.writer import Committed


class Delay(NamedTuple):
    """Where one transaction's time went, in seconds; the parts add up to its freshness."""

    commit_to_staged: float
    """From the return of its commit until the position of record was seen past it."""
    staged_to_build: float
    """From there to the start of the transaction of the build that applied it. Below zero where
    that build had begun before and had not yet read the position."""
    build_to_visible: float
    """From there until it was first seen in the model."""

    @property
    def commit_to_visible(self) -> float:
        """From its commit until it was first seen in the model."""
        return self.commit_to_staged + self.staged_to_build + self.build_to_visible


def commit_to_visible(
    committed: Sequence[Committed], observations: Sequence[Observation]
) -> list[float]:
    """Return each transaction's seconds from commit to model; all must be in an observation."""
    seen = iter(observations)
    observation = next(seen)
    found = []
    for transaction in committed:
        while observation.total < transaction.total:
            observation = next(seen)
        found.append(observation.at - transaction.at)
    return found


def delays(
    committed: Sequence[Committed], commit_lsns: Sequence[int], observations: Sequence[Observation]
) -> Iterator[Delay]:
    """Yield each transaction's delay; `commit_lsns` are the change log's, in order.

    Raises RuntimeError where the log has other transactions than were committed.
    """
    if len(committed) != len(commit_lsns):
        raise RuntimeError(f"{len(commit_lsns)} transactions staged of {len(committed)}")
    stagings, buildings = iter(observations), iter(observations)
    staged, built = next(stagings), next(buildings)
    for transaction, position in zip(committed, commit_lsns, strict=True):
        while staged.position <= position:
            staged = next(stagings)
        while built.applied <= position:
            built = next(buildings)
        if built.total < transaction.total:
            raise RuntimeError(
                f"the watermark has passed {transaction}, the model has not: {built}"
            )
        yield Delay(
            commit_to_staged=staged.at - transaction.at,
            staged_to_build=built.build_began - staged.at,
            build_to_visible=built.at - built.build_began,
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
