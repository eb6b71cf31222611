"""Writes what files repeat of the code: thresholds in alerts, exit codes in the runbook.

`make fix` runs it, and a test fails where a file differs.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from waltally_jobs.common import errors as of_jobs

from loader.source.state import Thresholds
from waltally import errors
from waltally.errors import LoaderError

ROOT = Path(__file__).parents[2]


def alerts(rules: str) -> str:
    """Return ops/prometheus-alerts.yml with the thresholds of `loader status`."""
    limits = Thresholds()
    for condition, limit in {
        "waltally_lag_seconds >": limits.lag_seconds,
        "waltally_model_lag_seconds >": limits.lag_seconds,
        "waltally_wal_held_bytes >": limits.wal_held_bytes,
        "waltally_safe_wal_size_bytes <": limits.min_safe_wal_bytes,
    }.items():
        rules = re.sub(rf"\b{condition} \d+", f"{condition} {limit:.0f}", rules)
    return rules


def meanings() -> dict[int, str]:
    """Return what each exit code means, by the docstrings of its errors."""
    kinds = [
        kind
        for module in (errors, of_jobs)
        for kind in vars(module).values()
        if isinstance(kind, type) and issubclass(kind, LoaderError)
    ]
    said: dict[int, list[str]] = {}
    for kind in dict.fromkeys(kinds):
        said.setdefault(kind.exit_code, []).append(" ".join((kind.__doc__ or "").split()))
    return {code: " ".join(sentences) for code, sentences in said.items()}


def runbook(page: str) -> str:
    """Return docs/runbook.md with the meaning of each exit code that the table has."""
    said = meanings()
    return re.sub(
        r"^\| (\d+) \|[^|]*\|",
        lambda row: f"| {row[1]} | {said[int(row[1])]} |",
        page,
        flags=re.MULTILINE,
    )


FILES: dict[str, Callable[[str], str]] = {
    "docs/runbook.md": runbook,
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
