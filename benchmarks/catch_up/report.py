"""What the catch-up benchmark found, as a table and as a figure."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks import report


@dataclass(frozen=True)
class Round:
    """One start of the loader with changes waiting."""

    staged: float
    """Seconds from the loader's start until the change log had everything."""
    visible: float
    """Seconds from the loader's start until the model had everything."""
    decoding: float
    """Seconds of decoding alone."""
    peak_bytes: int
    """The most memory that the loader held."""
    longest_staging: float
    """Seconds of the longest transaction of the staging, as the target saw it."""
    longest_build: float
    """The same for the builds."""
    slices: list[int]
    """Changes per build."""
    timeline: list[tuple[float, int, int]]
    """Seconds since the loader's start, changes staged, changes visible."""


def table(rows: int, idle: int, measured: Sequence[Round]) -> list[report.Row]:
    """Return a row per quantity: the median of the rounds, the least and the most."""
    quantities: dict[str, Callable[[Round], float]] = {
        "decoding alone, s": lambda one: one.decoding,
        "start to all staged, s": lambda one: one.staged,
        "start to all visible, s": lambda one: one.visible,
        "visible, changes/s": lambda one: rows / one.visible,
        "visible / decoding alone": lambda one: one.visible / one.decoding,
        "memory above an idle loader's, MB": lambda one: (one.peak_bytes - idle) / 1e6,
        "largest build, changes": lambda one: max(one.slices),
        "longest transaction of a build, s": lambda one: one.longest_build,
        "longest transaction of the staging, s": lambda one: one.longest_staging,
    }
    return [
        {
            "": name,
            "median": float(statistics.median(map(of, measured))),
            "least": float(min(map(of, measured))),
            "most": float(max(map(of, measured))),
        }
        for name, of in quantities.items()
    ]


def draw(rows: int, measured: Sequence[Round]) -> None:
    """Draw what was staged and visible over time in the median round, beside decoding alone."""
    median = sorted(measured, key=lambda one: one.visible)[len(measured) // 2]
    at, staged, applied = zip((0.0, 0, 0), *median.timeline, strict=True)
    with report.figure("catch_up") as axes:
        axes.plot((0, median.decoding), (0, rows / 1e6), "--", label="decoding alone (mean rate)")
        axes.step(at, [n / 1e6 for n in staged], where="post", label="staged")
        axes.step(at, [n / 1e6 for n in applied], where="post", label="visible in the model")
        axes.set_xlabel("seconds since the loader was started")
        axes.set_ylabel("changes, millions")
        axes.legend()
