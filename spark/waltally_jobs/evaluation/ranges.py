"""Cuts a table into ranges of row addresses; a partitioned table leaf by leaf."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from loader.source.leaf_catalog import tree
from waltally.tables import Table, quoted

if TYPE_CHECKING:
    from waltally.database import Connection

PAGE_BYTES = 8192
"""Of a server as it is built everywhere; what else it has makes only the progress wrong."""

PAGES_PER_RANGE = 8192
"""64 MB with pages of 8 kB: one or two seconds of reading, and one step of progress."""

PAGES_PER_GROUPED_RANGE = 65536
"""512 MB: as long, where the server counts. A larger range has fewer groups in all."""

_PAGES_TOGETHER, _LEAVES_TOGETHER = 2048, 64
"""What small leaves are read together up to: a task takes as long to begin as to read 16 MB.

It also locks each of its leaves."""

_ROWS_PER_PAGE = 128

LOCK_TIMEOUT = "5s"
"""A TRUNCATE that waits for the locks of a seed blocks its readers, which would wait for ever."""

_LEAVES = f"""
    {tree("select '', %s::regclass::oid, 0::oid, ''")}

    select
        namespace.nspname,
        leaf.relname,
        leaf.relkind,
        coalesce(pg_relation_size(leaf.oid), 0) / current_setting('block_size')::bigint,
        concat_ws(' ', leaf.oid, leaf.relfilenode, (
            select string_agg(concat_ws(' ', attnum, atttypid, attname), ' ' order by attnum)
            from pg_attribute
            where attrelid = leaf.oid and attnum > 0
        ))
    from tree
    inner join pg_class as leaf on leaf.oid = tree.oid and leaf.relkind <> 'p'
    inner join pg_namespace as namespace on namespace.oid = leaf.relnamespace
    order by leaf.oid
"""


_VALUES = """
with recursive bases as (
    select a.attnum, a.attname, a.atttypid, a.atttypid as base
    from pg_attribute as a
    where a.attrelid = %s::regclass and a.attname = any(%s::text[]) and not a.attisdropped
    union all
    select bases.attnum, bases.attname, bases.atttypid, t.typbasetype
    from bases
    inner join pg_type as t on t.oid = bases.base and t.typtype = 'd'
)

select bases.attname::text, format(
    case
        -- Below are the oids of PostgreSQL itself: the casts of these types are its own.
        when bases.base < 16384 then '%%1$I'
        when t.typtype = 'e' and bases.base = bases.atttypid
            then 'pg_catalog.textin(pg_catalog.enum_out(%%1$I))'
        else 'case pg_catalog.num_nulls(%%1$I) when 0 then pg_catalog.format(''%%%%s'', %%1$I) end'
    end,
    bases.attname
)
from bases
inner join pg_type as t on t.oid = bases.base and t.typtype <> 'd'
"""


@dataclass(frozen=True)
class Leaf:
    """A table that holds rows itself; `pages` was its size when it was read from the catalog.

    `definition` changes where the table is truncated, rewritten or made again, or its columns are
    others. Two leaves are equal whatever their sizes.
    """

    table: Table
    pages: int = field(compare=False)
    has_addresses: bool = True
    definition: str = ""


def values(connection: Connection, table: Table, names: Sequence[str]) -> str:
    """Return SQL: the columns of a table as they may be read, with ctid.

    A value of a type that somebody made is the text that the type itself gives. A cast would run
    what the owner of the type has made of it, with the rights of the session.
    """
    found: dict[str, str] = dict(connection.ask(_VALUES, (table.quoted, [*names])))
    return ", ".join(["ctid", *(f"{found[name]} as {quoted(name)}" for name in names)])


def relation(leaf: Leaf, values: str, sample: str = "") -> str:
    """Return the FROM item that gives these values of a leaf, or of a sample of it."""
    return f"(select {values} from only {leaf.table.quoted}{sample}) as own"


def row_estimate(connection: Connection, tables: Iterable[Table]) -> int:
    """Return about how many rows the tables hold, by their size: rows of 64 bytes."""
    return rows_of([(table, leaves(connection, table)) for table in tables])


def rows_of(found: Sequence[tuple[Table, Sequence[Leaf]]]) -> int:
    """Return the same where the leaves of the tables are known."""
    return sum(leaf.pages for _, leaves in found for leaf in leaves) * _ROWS_PER_PAGE


def leaves(connection: Connection, table: Table) -> list[Leaf]:
    """Return the tables that hold the rows. A foreign table has no row addresses to cut by."""
    rows = connection.ask(_LEAVES, (table.quoted,))
    return [
        Leaf(Table(schema, name), pages, kind != "f", definition)
        for schema, name, kind, pages, definition in rows
    ]


def cut(leaf: Leaf, pages_per_range: int) -> list[str]:
    """Return conditions that split the leaf. The last has no end, because the leaf may grow.

    A whole leaf is cheaper to read without addresses: then a large one stays out of the server's
    shared buffers.
    """
    if not leaf.has_addresses or leaf.pages <= pages_per_range:
        return ["true"]
    starts = range(0, max(leaf.pages, 1), pages_per_range)
    return [
        f"ctid >= '({start},0)'::tid"
        + (f" and ctid < '({start + pages_per_range},0)'::tid" if start != starts[-1] else "")
        for start in starts
    ]


def pages_per_range(
    found: Sequence[tuple[Table, Sequence[Leaf]]], partitions: int, most: int = PAGES_PER_RANGE
) -> int:
    """Return how many pages a range has: with `partitions` all tables' ranges are about as many."""
    total = sum(leaf.pages for _, parts in found for leaf in parts)
    return max(-(-total // partitions), 1) if partitions else most


def plan(leaves: Sequence[Leaf], pages: int, columns: str) -> list[str]:
    """Return queries of a table's ranges, of so many pages each; small leaves are read together."""
    queries = []
    together: list[Leaf] = []
    for leaf in leaves:
        conditions = cut(leaf, pages)
        if len(conditions) > 1:
            queries += [_query([leaf], columns, each) for each in conditions]
            continue
        size = sum(each.pages for each in together)
        is_full = size + leaf.pages > min(pages, _PAGES_TOGETHER)
        if together and (is_full or len(together) == _LEAVES_TOGETHER):
            queries.append(_query(together, columns))
            together = []
        together.append(leaf)
    return [*queries, _query(together, columns)] if together else queries


def _query(leaves: Sequence[Leaf], columns: str, condition: str = "true") -> str:
    return " union all ".join(
        f"select {columns} from only {leaf.table.quoted} where {condition}" for leaf in leaves
    )
