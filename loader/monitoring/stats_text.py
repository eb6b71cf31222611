"""What a fact says, for a person: a line per group that was asked for, and totals."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from loader.monitoring.stats import Freshness, Stats
from loader.monitoring.text_lines import REMEDY, aligned
from loader.staging.units import ago


def render(stats: Stats) -> list[str]:
    """Return the lines as a table with totals, and how fresh they are."""
    by = stats.query.by
    measures = [each.name for each in stats.query.fact.measures]
    rows = [[*by, *measures]]
    rows += [[_shown(line[name]) for name in rows[0]] for line in stats.lines if by]
    last = ["total" if not number else "" for number in range(len(by))]
    rows.append([*last, *(_shown(stats.totals[name]) for name in measures)])
    lines = aligned(rows, right=range(len(by), len(rows[0])))
    # In a narrow terminal a longer rule would be two.
    rule = "-" * min(80, max(map(len, lines)))
    where = ", ".join(f"{name} = {value}" for name, value in stats.query.where.items())
    return [
        f"{stats.query.fact.relation}" + (f" where {where}" if where else ""),
        "",
        lines[0],
        rule,
        *lines[1:-1],
        *([rule] if len(lines) > 2 else []),
        lines[-1],
        "",
        *_freshness(stats.freshness),
        # The remedy in a line of its own, so that it can be pasted.
        *(line for note in stats.notes or [] for line in _note(note)),
    ]


def _note(note: str) -> list[str]:
    said, separator, remedy = note.rpartition(f" {REMEDY}")
    return [said, f"{REMEDY}{remedy}"] if separator else [note]


def _freshness(freshness: list[Freshness] | None) -> list[str]:
    if freshness is None:
        return [
            "It is unknown how fresh and complete this is: there is no watermark that this role "
            "may read."
        ]
    return [
        f"applied {ago(each.moved_at)}, "
        + ("and more is staged" if each.is_behind else "and nothing more is staged")
        + f" (position {each.applied_lsn} of slot {each.slot})"
        for each in freshness
    ]


def _shown(value: Any) -> str:
    if isinstance(value, (int, Decimal)) and not isinstance(value, bool):
        return f"{value:,}"
    return "null" if value is None else str(value)
