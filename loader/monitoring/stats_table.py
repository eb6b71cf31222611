"""A service's counts for a person: statuses down, types across."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from loader.monitoring.stats import Freshness, Stats


def render(stats: Stats) -> RenderableType:
    """Return the counts as a table with totals, and how fresh they are."""
    types = sorted({each.notification_type for each in stats.counts})
    statuses = sorted({each.notification_status for each in stats.counts})
    numbers = {
        (each.notification_type, each.notification_status): each.count for each in stats.counts
    }
    table = Table("status", show_footer=True)
    table.columns[0].footer = "total"
    for kind in types:
        table.add_column(
            kind, _shown(sum(numbers.get((kind, s), 0) for s in statuses)), justify="right"
        )
    table.add_column("total", _shown(stats.total), justify="right")
    for status in statuses:
        row = [numbers.get((kind, status), 0) for kind in types]
        table.add_row(status, *map(_shown, row), _shown(sum(row)))
    notes = map(Text, stats.notes or [])
    return Group(f"service {stats.service_id}", table, _freshness(stats.freshness), *notes)


def _freshness(freshness: Freshness | None) -> str:
    if freshness is None:
        return (
            "How fresh and how complete this is cannot be told here: there is no watermark that "
            "this role may read."
        )
    rest = "more is staged" if freshness.is_behind else "nothing more is staged"
    return f"applied up to {freshness.applied_lsn} at {freshness.moved_at}; {rest}"


def _shown(number: int) -> str:
    return f"{number:,}"
