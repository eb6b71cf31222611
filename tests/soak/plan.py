"""What a soak does, and for how long."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from random import Random

from tests.soak.faults import OF_SPARK, WEIGHTS, Fault, one_round


@dataclass(frozen=True)
class Plan:
    """One system's faults; their order depends on the seed alone."""

    seed: int = 1
    minutes: float = 10.0
    fault_count: int | None = None
    """The most faults; None means as many as the minutes allow."""
    faults_per_check: int = 10
    rate: float = 10.0
    """Transactions per second in each writing session."""
    keep: bool = False
    """Leave the servers and the log files."""
    weights: Mapping[Fault, int] | None = None
    """How often each kind of fault occurs per round; None means all that the system can have."""

    def faults(self) -> Iterator[Fault]:
        """Yield the faults in their order, without end."""
        random = Random(f"{self.seed} order")
        weights = self.weights or (WEIGHTS if self.seed % 2 else WEIGHTS | OF_SPARK)
        while True:
            yield from one_round(random, weights)

    def is_over(self, done: int, seconds: float) -> bool:
        """Return whether so many faults in so many seconds complete the plan."""
        return done == self.fault_count or seconds > self.minutes * 60

    def seconds_left(self, done: int, seconds: float) -> float:
        """Estimate the rest from what was done so far."""
        left = self.minutes * 60 - seconds
        if self.fault_count is not None and done:
            left = min(left, seconds / done * (self.fault_count - done))
        return max(left, 0.0)
