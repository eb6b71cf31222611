"""What a fact says, for a person: a line per group that was asked for, and totals."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from loader.monitoring.stats import Freshness, Stats


def render(stats: Stats) -> RenderableType:
    """Return the lines as a table with totals, and how fresh they are."""
    by = stats.query.by
    measures = [each.name for each in stats.query.fact.measures]
    table = Table(show_footer=bool(by))
    for number, name in enumerate(by):
        table.add_column(Text(name), "" if number else "total")
    for name in measures:
        table.add_column(Text(name), _shown(stats.totals[name]), justify="right")
    for line in stats.lines if by else [stats.totals]:
        table.add_row(*(_shown(line[name]) for name in (*by, *measures)))
    where = ", ".join(f"{name} = {value}" for name, value in stats.query.where.items())
    head = Text(f"{stats.query.fact.relation}" + (f" where {where}" if where else ""))
    lines = [Text(line) for line in _freshness(stats.freshness)]
    return Group(head, table, *lines, *map(Text, stats.notes or []))


def _freshness(freshness: list[Freshness] | None) -> list[str]:
    if freshness is None:
        return [
            "It is unknown how fresh and complete this is: there is no watermark that this role "
            "may read."
        ]
    return [
        f"{each.slot} applied up to {each.applied_lsn} at {each.moved_at}; "
        + ("more is staged" if each.is_behind else "nothing more is staged")
        for each in freshness
    ]


def _shown(value: Any) -> Text:
    if isinstance(value, (int, Decimal)) and not isinstance(value, bool):
        return Text(f"{value:,}")
    return Text("null" if value is None else str(value))
