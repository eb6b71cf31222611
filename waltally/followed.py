"""From which position on the change log holds which columns of each table. Pure.

The loader writes it into logged_table.held_since; held_since() in SQL says it of a fact's columns.
"""

from __future__ import annotations

from collections.abc import Mapping

from waltally.tables import Table

ALL = "*"
"""Stands for every column of a table."""

Followed = Mapping[Table, Mapping[str, int]]
"""By table and by column: the first position from which the log holds it."""

Kept = Mapping[Table, frozenset[str] | None]
"""The columns of each followed table that the log keeps; None: every column."""


def renewed(
    before: Followed, kept: Kept, position: int, anew: Mapping[Table, int] | None = None
) -> dict[Table, dict[str, int]]:
    """Return what the log holds once a session follows `kept` from `position` on.

    What was followed without a gap keeps its earlier position; what is no longer followed is left
    out, so that it begins anew if it comes back. `anew` has the tables that begin anew in any case,
    with their own positions.
    """
    starts = anew or {}
    return {
        table: _renewed({}, columns, starts[table])
        if table in starts
        else _renewed(before.get(table, {}), columns, position)
        for table, columns in kept.items()
    }


def begun_anew(followed: Followed, starts: Mapping[Table, int]) -> Followed:
    """Return it after the log of these tables is whole only from these positions on."""
    return {
        **followed,
        **{
            table: {name: max(at, start) for name, at in followed[table].items()}
            for table, start in starts.items()
            if table in followed
        },
    }


def _renewed(
    before: Mapping[str, int], columns: frozenset[str] | None, position: int
) -> dict[str, int]:
    if columns is not None:
        return {
            column: min((before[name] for name in {column, ALL} & before.keys()), default=position)
            for column in sorted(columns - {ALL})
        }
    every = before.get(ALL, position)
    # Under --columns these were followed before the others.
    return {**{name: at for name, at in before.items() if at < every}, ALL: every}
