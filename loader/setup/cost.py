"""What facts of a table will cost its source, by the table's statistics. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from waltally.tables import Table, format_names
from waltally.units import size

_WIDE = 300
"""Bytes of a column whose values are worth leaving out."""


@dataclass(frozen=True)
class Column:
    """A column of the table."""

    name: str
    is_key: bool
    width: int | None
    """Its values' mean size in bytes; None where the server does not know."""


def cost_lines(table: Table, counted: Collection[str], columns: Sequence[Column]) -> list[str]:
    """Return the sentences about what a change costs, in about so many bytes."""
    if any(column.width is None for column in columns):
        return [f"What a change costs is unknown: analyze {table} first"]
    row = size(sum(column.width or 0 for column in columns))
    lines = [f"`replica identity full` adds about {row} of WAL to each update and delete"]
    wide = [
        column.name
        for column in columns
        if (column.width or 0) >= _WIDE and column.name not in counted and not column.is_key
    ]
    if wide:
        lines.append(
            f"Most of a row is {format_names(wide)}, which no model counts:"
            " `loader run --build --columns id` stores only what is counted and the named columns"
        )
    return lines
