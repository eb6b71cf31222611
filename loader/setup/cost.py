"""What a first fact will cost, by the table's statistics: bytes of WAL and log a change. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from loader.setup.proposal import Column, Proposal
from waltally.tables import format_names
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
class Cost:
    """What a change costs, in about so many bytes."""

    insert: float
    """Bytes of the log."""
    update_by_index: float
    update_in_full: float
    full_wal: float
    """What `replica identity full` adds to the WAL of each update and delete."""
    wide: tuple[str, ...]
    """Columns that are not counted, and make most of a change."""
    nullable: tuple[str, ...]
    """Counted columns that may be null: no index with one of them can be the replica identity."""

    def lines(self) -> list[str]:
        """Return the sentences for a person."""
        lines = [
            f"In the change log an insert has about {size(self.insert)}, an update"
            f" {size(self.update_by_index)} where an index over the counted columns is the replica"
            f" identity, or {size(self.update_in_full)} under `replica identity full`",
            f"`full` also adds about {size(self.full_wal)} of WAL to each update and delete",
        ]
        if self.nullable:
            lines.append(
                f"{format_names(self.nullable)} may be null, so only `full` is possible until"
                " `alter column … set not null`"
            )
        if self.wide:
            lines.append(
                f"Most of it is {format_names(self.wide)}, which the fact does not count:"
                " `loader run --build --columns id` stores only what is counted and the named"
                " columns"
            )
        return lines


def estimate(proposal: Proposal, columns: Sequence[Column]) -> Cost | None:
    """Return what a change costs; None where the table was never analyzed."""
    if any(column.width is None for column in columns):
        return None
    texts = {
        column.name: _AROUND
        + len(column.name)
        + _TEXT_WIDTHS.get(column.type_, (column.width or 0) + 2)
        for column in columns
    }
    row = sum(texts.values())
    counted = proposal.columns
    key = sum(
        text
        for column in columns
        if (text := texts[column.name]) and (column.is_key or column.name in counted)
    )
    insert = _HEADER + _ENVELOPE + row
    wide = tuple(
        column.name
        for column in columns
        if (column.width or 0) >= _WIDE and column.name not in counted and not column.is_key
    )
    nullable = tuple(
        column.name for column in columns if column.name in counted and not column.is_not_null
    )
    stored = sum(column.width or 0 for column in columns)
    return Cost(insert, insert + key, insert + row, stored, wide, nullable)
