"""What the checks need to know of the source's tables, asked in plain SQL. Pure: no driver."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from waltally.facts import Fact, identity_columns, needed_columns
from waltally.tables import Table

if TYPE_CHECKING:
    from waltally.database import Connection

BY_SESSION = (
    *("money", "aclitem", "regclass", "regcollation", "regconfig", "regdictionary"),
    *("regnamespace", "regoper", "regoperator", "regproc", "regprocedure", "regrole", "regtype"),
)
"""Types whose text depends on lc_monetary, search_path or a renaming, so on the session."""


@dataclass(frozen=True)
class Writes:
    """What the server's statistics say was written to a table, and how much there is of it."""

    rows: float
    """As the planner takes it; -1 where the table was never analysed."""
    size: float
    """In bytes, with what is out of line, without indexes."""
    inserts: float = 0
    updates: float = 0
    deletes: float = 0


@dataclass(frozen=True)
class TableInfo:
    """A source table as the catalog has it."""

    table: Table
    kind: str | None = None
    """pg_class.relkind, None where the table does not exist."""
    persistence: str | None = None
    columns: Mapping[str, bool] = field(default_factory=dict)
    """Column names, and whether they are NOT NULL."""
    identity: str | None = None
    """pg_class.relreplident."""
    identity_columns: Collection[str] = ()
    """What an old row carries under `default` and `using index`."""
    primary_key: Sequence[str] = ()
    wide_index: str | None = None
    """An index that is there already and may become an identity wide enough."""
    by_session: Mapping[str, str] = field(default_factory=dict)
    """By needed column, the type whose text differs between sessions: its own or one within it."""
    names_taken: Collection[str] = ()
    """Names that a remedy may not give: those of the schema that end like its indexes'."""
    types: Mapping[str, str] = field(default_factory=dict)
    """By needed column, its type; of a domain the type that it is made of."""
    heirs: Sequence[str] = ()
    """The tables that inherit from this one, quoted as SQL needs them; partitions do not."""
    virtual: Mapping[str, str] = field(default_factory=dict)
    """By needed column that is computed when it is read, how it would be declared as stored."""
    writes: Writes = Writes(-1, 0)


_TABLE = """
with recursive wanted as (
    select c.oid
    from pg_class as c
    inner join pg_namespace as n on n.oid = c.relnamespace
    where n.nspname = %(schema)s and c.relname = %(name)s
),

needed as (
    select a.attname, a.atttypid
    from wanted
    inner join pg_attribute as a on a.attrelid = wanted.oid
    where a.attname = any(%(columns)s::text[]) and not a.attisdropped
),

-- The type of each needed column, and those within it.
parts (attname, type) as (
    select * from needed
    union
    select parts.attname, inner_type.type
    from parts
    inner join pg_type as t on t.oid = parts.type
    cross join lateral (
        select t.typelem
        union all
        select t.typbasetype
        union all
        select r.rngsubtype from pg_range as r
        where t.oid in (r.rngtypid, r.rngmultitypid)
        union all
        select a.atttypid
        from pg_attribute as a
        where a.attrelid = t.typrelid and a.attnum > 0 and not a.attisdropped
    ) as inner_type (type)
    where inner_type.type <> 0
),

-- The type of each needed column; a domain is followed down to the type that it is made of.
bases (attname, type) as (
    select * from needed
    union
    select bases.attname, t.typbasetype
    from bases
    inner join pg_type as t on t.oid = bases.type and t.typtype = 'd'
),

keys as (
    select
        i.*,
        x.relname::text as index_name,
        a.attname::text as name,
        a.attnotnull,
        k.place
    from pg_index as i
    inner join pg_class as x on x.oid = i.indexrelid
    cross join unnest(i.indkey) with ordinality as k (attnum, place)
    inner join pg_attribute as a on a.attrelid = i.indrelid and a.attnum = k.attnum
    -- An old row lacks what an index only includes.
    where k.place <= i.indnkeyatts
)

select
    c.relkind::text,
    c.relpersistence::text,
    coalesce((
        select jsonb_object_agg(a.attname, a.attnotnull) from pg_attribute as a
        where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
    ), '{}'),
    c.relreplident::text,
    array(
        select k.name from keys as k
        where k.indrelid = c.oid
        and case c.relreplident when 'i' then k.indisreplident when 'd' then k.indisprimary end
    ),
    array(
        select k.name from keys as k
        where k.indrelid = c.oid and k.indisprimary
        order by k.place
    ),
    (
        select k.index_name from keys as k
        where k.indrelid = c.oid and k.indisunique and k.indisvalid and k.indimmediate
        and k.indpred is null and k.indexprs is null
        group by k.index_name
        having array_agg(k.name) @> %(identity)s::text[] and bool_and(k.attnotnull)
        order by count(*), k.index_name
        limit 1
    ),
    coalesce((
        select jsonb_object_agg(found.attname, found.type) from (
            select parts.attname::text, min(format_type(parts.type, null)) as type
            from parts
            inner join pg_type as t on t.oid = parts.type
            where
                t.typnamespace = 'pg_catalog'::regnamespace
                and t.typname = any(%(by_session)s)
            group by parts.attname
        ) as found
    ), '{}'),
    array(
        select o.relname::text from pg_class as o
        where o.relnamespace = c.relnamespace and o.relname ~ '_replica_identity[_0-9]*$'
    ),
    coalesce((
        select jsonb_object_agg(bases.attname, format_type(bases.type, null))
        from bases
        inner join pg_type as t on t.oid = bases.type and t.typtype <> 'd'
    ), '{}'),
    array(
        select format('%%I.%%I', n.nspname, child.relname)
        from pg_inherits as i
        inner join pg_class as child on child.oid = i.inhrelid
        inner join pg_namespace as n on n.oid = child.relnamespace
        where i.inhparent = c.oid and c.relkind = 'r'
        order by child.oid
    ),
    coalesce((
        select jsonb_object_agg(a.attname, concat(
            format_type(a.atttypid, a.atttypmod),
            ' generated always as (', pg_get_expr(d.adbin, d.adrelid), ') stored',
            case when a.attnotnull then ' not null' end
        ))
        from pg_attribute as a
        inner join pg_attrdef as d on d.adrelid = a.attrelid and d.adnum = a.attnum
        where a.attrelid = c.oid and a.attgenerated = 'v' and a.attname = any(%(columns)s::text[])
    ), '{}'),
    array[
        c.reltuples,
        pg_table_size(c.oid),
        pg_stat_get_tuples_inserted(c.oid),
        pg_stat_get_tuples_updated(c.oid),
        pg_stat_get_tuples_deleted(c.oid)
    ]::double precision[]
from wanted
inner join pg_class as c on c.oid = wanted.oid
"""


def ask_table(
    connection: Connection,
    table: Table,
    facts: Sequence[Fact],
    root: Table | None = None,
) -> TableInfo:
    """Return what there is to know of a table that the facts need. Raises LoaderError.

    Of a leaf the facts need what they need of its `root`.
    """
    counted = root or table
    values = {
        "schema": table.schema,
        "name": table.name,
        "columns": list(needed_columns(facts, counted)),
        "identity": list(identity_columns(facts, counted)),
        "by_session": list(BY_SESSION),
    }
    rows = connection.ask(_TABLE, values)
    if not rows:
        return TableInfo(table)
    *plain, writes = rows[0]
    return TableInfo(table, *(*plain, Writes(*writes)))
