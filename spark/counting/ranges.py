"""A table cut into ranges of row addresses, leaf by leaf where it is partitioned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from common.connections import Connection

from waltally.tables import Table

PAGES_A_RANGE = 8192
"""64 MB with the usual page of 8 kB: a second or two of reading, and a step of progress."""

_LEAVES = """
    select
        namespace.nspname,
        leaf.relname,
        leaf.relkind,
        coalesce(pg_relation_size(leaf.oid), 0) / current_setting('block_size')::bigint
    from pg_class as root
    inner join pg_class as leaf
        on leaf.oid = root.oid and root.relkind <> 'p'
        or root.relkind = 'p' and leaf.oid in (
            select relid from pg_partition_tree(root.oid) where isleaf and relid <> root.oid
        )
    inner join pg_namespace as namespace on namespace.oid = leaf.relnamespace
    where root.oid = %s::regclass
    order by leaf.oid
"""


@dataclass(frozen=True)
class Leaf:
    """A table that holds rows itself; `pages` is its size when asked."""

    table: Table
    pages: int
    has_addresses: bool = True


@dataclass(frozen=True)
class Range:
    """What one task reads: rows counted under `source_table`, and how many pages that takes."""

    source_table: str
    query: str
    pages: int


def leaves(connection: Connection, table: Table) -> list[Leaf]:
    """Return where the table's rows are; a foreign leaf has no row addresses to cut by."""
    rows = connection.execute(_LEAVES, (table.quoted,)).fetchall()
    return [
        Leaf(Table(str(schema), str(name)), int(str(pages)), kind != "f")
        for schema, name, kind, pages in rows
    ]


def cut(leaf: Leaf, pages_a_range: int) -> list[str]:
    """Return conditions that split the leaf; the last is open, so that growth is not missed."""
    if not leaf.has_addresses:
        return ["true"]
    starts = range(0, max(leaf.pages, 1), pages_a_range)
    return [
        f"ctid >= '({start},0)'::tid"
        + (f" and ctid < '({start + pages_a_range},0)'::tid" if start != starts[-1] else "")
        for start in starts
    ]


def plan(
    found: Sequence[tuple[Table, Sequence[Leaf]]],
    partitions: int,
    selections: Mapping[Table, str],
) -> list[Range]:
    """Return the ranges of all tables: about `partitions` of them, or as many as size asks for.

    `selections` has of each table what to select.
    """
    total = sum(leaf.pages for _, parts in found for leaf in parts)
    pages_a_range = max(-(-total // partitions), 1) if partitions else PAGES_A_RANGE
    ranges = []
    for table, parts in found:
        for leaf in parts:
            conditions = cut(leaf, pages_a_range)
            ranges += [
                Range(
                    str(table),
                    f"select {selections[table]} from only {leaf.table.quoted} where {condition}",
                    min(pages_a_range, leaf.pages),
                )
                for condition in conditions
            ]
    return ranges
