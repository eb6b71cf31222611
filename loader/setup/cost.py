"""What facts of a table will cost, by its statistics: bytes of WAL and log a change. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from waltally.tables import Table, format_names
from waltally.units import size

_ENVELOPE = 90
"""Bytes of a change's JSON beside its columns."""
_HEADER = 100
"""Bytes of a row of the change log beside its JSON."""
_AROUND = 20
"""Bytes of JSON around a column's name and value."""
_WIDE = 300
"""Bytes of a column whose values are worth leaving out."""
_TEXT_WIDTHS = {
    "uuid": 38, "boolean": 5, "date": 12, "smallint": 3, "integer": 6, "bigint": 9,
    "timestamp without time zone": 28, "timestamp with time zone": 31,
}  # fmt: skip
"""As JSON has the value; others are about as wide as stored."""


@dataclass(frozen=True)
class Column:
    """A column of the table."""

    name: str
    type_: str
    """As SQL writes it, without its length."""
    is_key: bool
    width: int | None
    """Its values' mean size in bytes; None where the server does not know."""


def cost_lines(table: Table, counted: Collection[str], columns: Sequence[Column]) -> list[str]:
    """Return the sentences about what a change costs, in about so many bytes."""
    if any(column.width is None for column in columns):
        return [f"What a change costs is unknown: analyze {table} first"]
    texts = {
        column.name: _AROUND
        + len(column.name)
        + _TEXT_WIDTHS.get(column.type_, (column.width or 0) + 2)
        for column in columns
    }
    row = sum(texts.values())
    insert = _HEADER + _ENVELOPE + row
    full_wal = size(sum(column.width or 0 for column in columns))
    lines = [
        f"`replica identity full` adds about {full_wal} of WAL to each update and delete; in the"
        f" change log an insert has about {size(insert)}, an update {size(insert + row)}"
    ]
    wide = [
        column.name
        for column in columns
        if (column.width or 0) >= _WIDE and column.name not in counted and not column.is_key
    ]
    if wide:
        lines.append(
            f"Most of it is {format_names(wide)}, which no model counts:"
            " `loader run --build --columns id` stores only what is counted and the named columns"
        )
    return lines
