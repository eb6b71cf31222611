"""Writes what files repeat of the code: thresholds in alerts.

python -m docs.site.generated: `make fix` runs it, and a test fails where a file differs.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from loader.monitoring.findings import Thresholds

ROOT = Path(__file__).parents[2]


def alerts(rules: str) -> str:
    """Return ops/prometheus-alerts.yml with the thresholds of `loader status`."""
    limits = Thresholds()
    for condition, limit in {
        "waltally_lag_seconds >": limits.lag_seconds,
        "waltally_fact_lag_seconds >": limits.lag_seconds,
        "waltally_wal_held_bytes >": limits.wal_held_bytes,
        "waltally_safe_wal_size_bytes <": limits.min_safe_wal_bytes,
    }.items():
        rules = re.sub(rf"\b{condition} \d+", f"{condition} {limit:.0f}", rules)
    return rules


FILES: dict[str, Callable[[str], str]] = {
    "ops/prometheus-alerts.yml": alerts,
}
"""By path, what returns the file's text with what the code says."""


def main() -> None:
    """Write the files that differ."""
    for path, written in FILES.items():
        before = (ROOT / path).read_text()
        if (now := written(before)) != before:
            (ROOT / path).write_text(now)


if __name__ == "__main__":
    main()
