"""What the freshness benchmark found, as tables."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks import report
from benchmarks.freshness.delays import Delay, percentile, summary
from benchmarks.freshness.load import Step


@dataclass
class Found:
    """What was measured."""

    steady: list[list[Delay]] = field(default_factory=list)
    singles: list[list[Delay]] = field(default_factory=list)
    """A list per round."""
    builds: list[float] = field(default_factory=list)
    """Seconds of each build of the steady rounds."""
    cpu: list[list[float]] = field(default_factory=list)
    """Of each steady round: the share of a core that loader and its sessions took."""
    steps: list[Step] = field(default_factory=list)
    decoding: list[float] = field(default_factory=list)
    """Changes per second of each reading of the fastest flat step."""

    @property
    def fastest(self) -> Step | None:
        """The flat step with the highest rate, the last step where none is flat."""
        flat = [step for step in self.steps if step.is_flat] or self.steps[-1:]
        return max(flat, key=lambda step: step.reached, default=None)


def table(found: Found, rate: int) -> list[report.Row]:
    """Return the rows of the steady rate, its parts, and the single changes."""
    steady = [delay for taken in found.steady for delay in taken]
    singles = [delay for taken in found.singles for delay in taken]
    loader, sessions = (statistics.mean(shares) for shares in zip(*found.cpu, strict=True))
    return [
        {
            **_row(
                f"{rate:,} changes/s, visible",
                [[delay.commit_to_visible for delay in t] for t in found.steady],
            ),
            "share of a core": f"loader {loader:.2f}, sessions {sessions:.2f}",
        },
        {"": "  commit to staged", **summary([delay.commit_to_staged for delay in steady])},
        {"": "  staged to build", **summary([delay.staged_to_build for delay in steady])},
        {"": "  build to visible", **summary([delay.build_to_visible for delay in steady])},
        *([{"": "  (a whole build)", **summary(found.builds)}] if found.builds else ()),
        _row(
            "single changes, visible",
            [[delay.commit_to_visible for delay in t] for t in found.singles],
        ),
        {"": "  commit to staged", **summary([delay.commit_to_staged for delay in singles])},
        {"": "  staged to build", **summary([delay.staged_to_build for delay in singles])},
        {"": "  build to visible", **summary([delay.build_to_visible for delay in singles])},
    ]


def _row(name: str, rounds: Sequence[Sequence[float]]) -> report.Row:
    medians = [percentile(taken, 0.5) * 1000 for taken in rounds]
    return {
        "": name,
        **summary([seconds for taken in rounds for seconds in taken]),
        "p50 of the rounds": f"{min(medians):,.0f} to {max(medians):,.0f}",
    }


def steps_table(found: Found) -> list[report.Row]:
    """Return a row per step, with its share of the rate of decoding alone."""
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
