"""What the freshness benchmark found, as tables and as a figure."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks import report
from benchmarks.freshness.delays import Lag, percentile, summary
from benchmarks.freshness.load import Step


@dataclass
class Found:
    """What was measured."""

    steady: list[list[Lag]] = field(default_factory=list)
    singles: list[list[Lag]] = field(default_factory=list)
    """A list a round."""
    builds: list[float] = field(default_factory=list)
    """Seconds of each build of the steady rounds, dbt's own work included."""
    steps: list[Step] = field(default_factory=list)
    decoding: list[float] = field(default_factory=list)
    """Changes a second of each reading of the fastest flat step."""

    @property
    def fastest(self) -> Step | None:
        """The flat step with the highest rate, the last step where none is flat."""
        flat = [step for step in self.steps if step.is_flat] or self.steps[-1:]
        return max(flat, key=lambda step: step.reached, default=None)


def table(found: Found, rate: int) -> list[report.Row]:
    """Return the rows of the steady rate, its parts, and the single changes."""
    steady = [lag for taken in found.steady for lag in taken]
    singles = [lag for taken in found.singles for lag in taken]
    return [
        _row(f"{rate:,} changes/s, visible", [[lag.visible for lag in t] for t in found.steady]),
        {"": "  commit to staged", **summary([lag.staging for lag in steady])},
        {"": "  staged to build", **summary([lag.waiting for lag in steady])},
        {"": "  build to visible", **summary([lag.building for lag in steady])},
        {"": "  (a whole dbt run)", **summary(found.builds)},
        _row("single changes, visible", [[lag.visible for lag in t] for t in found.singles]),
        {"": "  commit to staged", **summary([lag.staging for lag in singles])},
        {"": "  staged to build", **summary([lag.waiting for lag in singles])},
        {"": "  build to visible", **summary([lag.building for lag in singles])},
    ]


def _row(name: str, rounds: Sequence[Sequence[float]]) -> report.Row:
    medians = [percentile(taken, 0.5) * 1000 for taken in rounds]
    return {
        "": name,
        **summary([seconds for taken in rounds for seconds in taken]),
        "p50 of the rounds": f"{min(medians):,.0f} to {max(medians):,.0f}",
    }


def steps_table(found: Found) -> list[report.Row]:
    """Return a row a step, with its share of what decoding alone reads of the fastest flat one."""
    alone = statistics.median(found.decoding) if found.decoding else None
    rows: list[report.Row] = [
        {
            "changes/s asked": f"{step.asked:,}",
            "reached": step.reached,
            "of decoding alone": step.reached / alone if alone else None,
            "p95 first third s": step.first,
            "p95 last third s": step.last,
            "caught up s": step.caught_up,
            "flat": "yes" if step.is_flat else "no",
        }
        for step in found.steps
    ]
    if alone:
        spread = f"decoding alone ({min(found.decoding):,.0f} to {max(found.decoding):,.0f})"
        rows.append({"changes/s asked": spread, "reached": alone, "of decoding alone": 1.0})
    return rows


def draw(found: Found, name: str) -> None:
    """Draw the lag over time of each step."""
    with report.figure(name) as axes:
        for step in found.steps:
            axes.plot(*zip(*step.lags, strict=True), label=f"{step.reached:,.0f} changes/s")
        axes.set_xlabel("seconds since the step began")
        axes.set_ylabel("commit to visible, s")
        axes.set_ylim(bottom=0)
        axes.legend()
