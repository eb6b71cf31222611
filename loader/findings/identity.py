"""A replica identity that lacks what models need, and the cheapest one that has it. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence

from loader.source.table import TableInfo, Writes
from waltally.errors import IdentityTooNarrow, LoaderError
from waltally.tables import quoted
from waltally.units import size

_LARGE = 1_000_000
"""From so many rows on it matters which replica identity costs less."""


def identity_wide(info: TableInfo, needed: Sequence[str]) -> LoaderError | None:
    """An old row must have the columns that the models need to subtract what it added.

    Source: PostgreSQL documentation, "ALTER TABLE", REPLICA IDENTITY.
    """
    if info.identity == "f":
        return None
    missing = [name for name in needed if name not in info.identity_columns]
    if not missing and info.identity != "n" and info.identity_columns:
        return None
    sql, why = identity_change(info, needed)
    return IdentityTooNarrow(
        f"The replica identity of {info.table} does not carry {', '.join(missing) or 'any column'}"
        ": deletes and moves between groups could not be counted",
        " -- ".join(filter(None, (" ".join(sql), why))),
        sql=sql,
    )


def identity_change(info: TableInfo, needed: Sequence[str]) -> tuple[Sequence[str], str]:
    """Return the SQL for a wide enough replica identity, and what to know of it.

    No SQL where the server would then refuse the application's own writes, but what to do before.
    """
    sql, why, columns = _identity(info, needed)
    narrow = [
        name
        for name, published in info.partly_published.items()
        if columns is None or not set(columns) <= set(published)
    ]
    if narrow:
        return (), (
            f"let the publication {', '.join(narrow)} publish all columns of {info.table} first: "
            "with a replica identity that has more columns than it publishes, PostgreSQL refuses "
            "the application's updates and deletes; then `loader setup --check` prints the SQL"
        )
    return sql, why


_Identity = tuple[Sequence[str], str, Sequence[str] | None]


def _identity(info: TableInfo, needed: Sequence[str]) -> _Identity:
    """Return the SQL, what to know of it, and the columns of an old row; None for all."""
    table = info.table
    choose = f"alter table {table.quoted} replica identity"
    full = (f"{choose} full;",)
    if info.wide_index is not None:
        return (f"{choose} using index {quoted(info.wide_index)};",), "", needed
    columns = list(dict.fromkeys((*info.primary_key, *needed)))
    index = quoted(_free_name(table.name, "_replica_identity", info.names_taken))
    covering = (
        f"create unique index concurrently {index} on {table.quoted} "
        f"({', '.join(map(quoted, columns))});",
        f"{choose} using index {index};",
    )
    cost = _cost_of_full(info.writes)
    if nullable := [name for name in needed if not info.columns.get(name)]:
        names = ", ".join(nullable)
        why = f"an index would write less, but {names} may be null (set not null)"
        return full, f"{why}; {cost}", None
    if not info.primary_key:
        why = "with a primary key that is not deferrable, an index would write less"
        return full, f"{why}; {cost}", None
    if long := _too_long(info, columns):
        why = (
            f"{', '.join(long)} may be too long for an index: the application's own write fails "
            f"then; {cost}"
        )
        if all(name in info.index_sizes for name in columns):
            why += f"; if all values stay short, an index writes less: {' '.join(covering)}"
        return full, why, None
    if _is_full_cheaper(info.writes):
        taken = size(info.writes.rows * (6 + 16 * len(columns)))
        why = f"an index would take about {taken} and, by the table's statistics, write more WAL"
        return full, f"{why}; {cost}", None
    return covering, "", columns


_INDEX_BYTES = 2_600
"""PostgreSQL refuses a row of which an index entry would have more than 2,704, with its header."""
_ALIGNED = 8


def _too_long(info: TableInfo, columns: Sequence[str]) -> list[str]:
    """Return the columns with which an index entry may be too long; empty where it never is."""
    sizes = {name: info.index_sizes.get(name) for name in columns}
    known = {name: most for name, most in sizes.items() if most is not None}
    if len(known) < len(sizes):
        return [name for name in columns if name not in known]
    is_short = sum(most + _ALIGNED for most in known.values()) <= _INDEX_BYTES
    return [] if is_short else [name for name in columns if known[name] > _LONG]


_LONG = 64
"""The bytes of the longest types that are not counted as long: a name, a number."""


def _cost_of_full(writes: Writes) -> str:
    """Return what old rows in full cost, by the table's size.

    pg_stats.avg_width would leave out what is stored out of line, and so most of a wide row.
    """
    if writes.rows <= 0:
        return "full writes each old row whole to the WAL; analyze the table, to see the bytes"
    whole = size(writes.size / writes.rows)
    return f"full writes about {whole} of WAL more for each update and delete"


def _is_full_cheaper(writes: Writes) -> bool:
    """Return whether full old rows write less WAL than an index; see docs/performance.md.

    The numbers are bytes of WAL that a covering index of five columns wrote on Notify's history. A
    full old row is about as long as the row.
    """
    if writes.rows < _LARGE:
        return False
    by_index = 125 * writes.inserts + 210 * writes.updates + 50 * writes.deletes
    return writes.size / writes.rows * (writes.updates + writes.deletes) < by_index


def _free_name(start: str, end: str, taken: Collection[str]) -> str:
    """Return a free name for an index, of at most 63 bytes: the server would cut a longer one."""
    for number in itertools.count(1):
        suffix = end + (f"_{number}" if number > 1 else "")
        name = start.encode()[: 63 - len(suffix)].decode(errors="ignore") + suffix
        if name not in taken:
            return name
    raise AssertionError("the numbers have no end")
