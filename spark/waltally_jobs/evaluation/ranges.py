"""Cuts a table into ranges of row addresses; a partitioned table leaf by leaf."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from loader.source.leaf_catalog import tree
from waltally.database import Connection, Target
from waltally.errors import TableUnfit
from waltally.models import Model, ModelTable
from waltally.tables import Table, quoted
from waltally_jobs.evaluation.tasks import Identity, Range

PAGES_PER_RANGE = 8192
"""64 MB with pages of 8 kB: one or two seconds of reading, and one step of progress."""

PAGES_PER_GROUPED_RANGE = 65536
"""512 MB: as long, where the server counts. A larger range has fewer groups in all."""

_PAGES_TOGETHER, _LEAVES_TOGETHER = 2048, 64
"""What small leaves are read together up to: a task takes as long to begin as to read 16 MB.

It also locks each of its leaves."""

_LEAVES = f"""
    {tree("select '', %s::regclass::oid, 0::oid, ''")}

    select
        namespace.nspname,
        leaf.relname,
        leaf.relkind,
        case when %s then
            coalesce(pg_relation_size(leaf.oid), 0) / current_setting('block_size')::bigint
        else 0 end,
        greatest(leaf.reltuples, 0)::bigint,
        concat_ws(' ', leaf.oid, leaf.relfilenode),
        (
            select string_agg(concat_ws(' ', attnum, atttypid, attname), ' ' order by attnum)
            from pg_attribute
            where attrelid = leaf.oid and attnum > 0 and attname = any(%s::text[])
        )
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
    """A table that holds rows itself, with about so many pages and rows.

    `identity` changes where the table is truncated, rewritten or made again, `columns` where those
    that are needed are others. Two leaves are equal whatever their sizes.
    """

    table: Table
    pages: int = field(compare=False)
    rows: int = field(default=0, compare=False)
    is_foreign: bool = False
    identity: str = ""
    columns: str | None = None

    @property
    def then(self) -> Identity:
        """Its name, and its identity when it was read."""
        return self.table.quoted, self.identity


def values(connection: Connection, table: Table, names: Sequence[str]) -> str:
    """Return SQL: the columns of a table as they may be read, with ctid. Raises TableUnfit.

    A value of a type that somebody made is the text that the type itself gives. A cast would run
    what the owner of the type has made of it, with the rights of the session.
    """
    found: dict[str, str] = dict(connection.ask(_VALUES, (table.quoted, [*names])))
    if gone := [name for name in names if name not in found]:
        raise TableUnfit(
            f"The table {table} has no column {', '.join(gone)} any more",
            "correct the name in the query, then `dbt build`",
        )
    return ", ".join(["ctid", *(f"{found[name]} as {quoted(name)}" for name in names)])


def relation(leaf: Leaf, values: str, sample: str = "") -> str:
    """Return the FROM item that gives these values of a leaf, or of a sample of it."""
    return f"(select {values} from only {leaf.table.quoted}{sample}) as own"


def range_query(target: Target, model: Model, part: ModelTable, place: str) -> str:
    """Return the model's query over rows of one of its tables, from a place: a FROM clause."""
    values = json.dumps(model.declaration), model.tables.index(part) + 1, place
    ((query,),) = target.ask_staging("select {}.write_range(%s, %s, %s)", values)
    return str(query)


def whole(
    target: Target, model: Model, part: ModelTable, relation: str, *leaves: Identity
) -> Range:
    """Return all rows of a FROM item as a range."""
    mark = f"/*{secrets.token_hex(8)}*/"
    query = range_query(target, model, part, f"from {relation} where {mark}")
    columns, zone = tuple(model.needed_columns(part)), model.declaration["timezone"]
    return Range(model.name, part.name, zone, columns, query, mark, relation, leaves)


def leaves(
    connection: Connection, table: Table, columns: Sequence[str] = (), sized: bool = True
) -> list[Leaf]:
    """Return the tables that hold the rows.

    To ask for a size waits for whoever locks a table.
    """
    rows = connection.ask(_LEAVES, (table.quoted, sized, [*columns]))
    return [
        Leaf(Table(schema, name), pages, rows, kind == "f", *definition)
        for schema, name, kind, pages, rows, *definition in rows
    ]


def cut(leaf: Leaf, pages_per_range: int) -> list[str]:
    """Return conditions that split the leaf. The last has no end, because the leaf may grow.

    A whole leaf is cheaper to read without addresses: then a large one stays out of the server's
    shared buffers.
    """
    if leaf.pages <= pages_per_range:
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


Piece = TypeVar("Piece")


def together(work: Iterable[tuple[Piece, int]], pages: int) -> Iterator[list[Piece]]:
    """Yield pieces of so many pages each; small ones in one list, up to so many pages."""
    bundle: list[Piece] = []
    size = 0
    for piece, own in work:
        if bundle and (size + own > min(pages, _PAGES_TOGETHER) or len(bundle) == _LEAVES_TOGETHER):
            yield bundle
            bundle, size = [], 0
        bundle.append(piece)
        size += own
    if bundle:
        yield bundle


def plan(leaves: Sequence[Leaf], pages: int, columns: str) -> list[tuple[list[Identity], str]]:
    """Return queries of a table's ranges, of so many pages each, with the leaves that they read."""
    work = [
        ((leaf, condition), min(pages, leaf.pages))
        for leaf in leaves
        for condition in cut(leaf, pages)
    ]
    return [
        (
            [leaf.then for leaf, _ in bundle],
            " union all ".join(
                f"select {columns} from only {leaf.table.quoted} where {condition}"
                for leaf, condition in bundle
            ),
        )
        for bundle in together(work, pages)
    ]
