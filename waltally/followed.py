"""From which position the change log holds which columns of a table. Pure.

The loader writes it into slot_position.followed: {"schema.table": {"column, or * for all": "LSN"}}.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from waltally import lsn
from waltally.tables import Table

ALL = "*"
"""Stands for every column of a table."""

Followed = Mapping[str, Mapping[str, str]]
"""By table as `schema.table` and by column: the first position from which the log holds it."""

Kept = Mapping[Table, frozenset[str] | None]
"""The columns of each followed table that the log keeps; None: every column."""


def since(followed: Followed, table: Table, columns: Iterable[str]) -> int | None:
    """Return from which position on the log holds all these columns; None: not yet."""
    of_table = followed.get(str(table), {})
    wanted = tuple(columns)
    if not wanted:
        # Only the number of its changes counts: any column tells since when they are logged.
        return min(map(lsn.parse, of_table.values()), default=None)
    found = [_since(of_table, column) for column in wanted]
    known = [position for position in found if position is not None]
    return max(known) if len(known) == len(wanted) else None


def renewed(
    before: Followed, kept: Kept, position: int, anew: Mapping[Table, int] | None = None
) -> dict[str, dict[str, str]]:
    """Return what the log holds once a session follows `kept` from `position` on.

    What was followed without a gap keeps its earlier position; what is no longer followed is left
    out, so that it begins anew if it comes back. `anew` has the tables that begin anew in any case,
    with their own positions.
    """
    starts = anew or {}
    return {
        str(table): _renewed({}, columns, starts[table])
        if table in starts
        else _renewed(before.get(str(table), {}), columns, position)
        for table, columns in kept.items()
    }


def begun_anew(followed: Followed, starts: Mapping[Table, int]) -> Followed:
    """Return it after the log of these tables is whole only from these positions on."""
    return {
        **followed,
        **{
            str(table): {name: lsn.show(max(lsn.parse(at), start)) for name, at in known.items()}
            for table, start in starts.items()
            if (known := followed.get(str(table))) is not None
        },
    }


def _renewed(
    before: Mapping[str, str], columns: frozenset[str] | None, position: int
) -> dict[str, str]:
    if columns is not None:
        found = {column: _since(before, column) for column in sorted(columns - {ALL})}
        return {name: lsn.show(position if at is None else at) for name, at in found.items()}
    every = lsn.parse(before[ALL]) if ALL in before else position
    # Under --columns these were followed before the others.
    earlier = {name: at for name, at in before.items() if lsn.parse(at) < every}
    return {**earlier, ALL: lsn.show(every)}


def _since(of_table: Mapping[str, str], column: str) -> int | None:
    found = [lsn.parse(of_table[name]) for name in (column, ALL) if name in of_table]
    return min(found, default=None)
