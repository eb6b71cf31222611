"""Draw the figures of published results again, after a change of how they look.

python -m benchmarks.redraw

The figure of catch-up is drawn by its benchmark alone: what it shows over time is not in the JSON.
"""

from __future__ import annotations

from benchmarks import report
from benchmarks.freshness.report import draw as draw_freshness
from benchmarks.overhead import draw as draw_overhead


def main() -> None:
    """Draw each figure whose data was published."""
    draw_freshness(report.published("freshness_steps"))
    draw_overhead(report.published("overhead"))


if __name__ == "__main__":
    main()
