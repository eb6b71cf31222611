"""Asks a source about its tables, and the target about those that were counted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from loader.source.label_catalog import TYPES_WITHIN, LabelCatalog, list_needs
from loader.source.table import BY_SESSION, TableInfo, Writes
from loader.source.table_identity import TableIdentities
from loader.staging.logged_tables import Root
from waltally.database import Connection, Target
from waltally.models import Model, identity_columns, needed_columns, source_tables
from waltally.tables import Table

_TABLE = (
    """
with recursive this_table as (
    select c.oid
    from pg_class as c
    inner join pg_namespace as n on n.oid = c.relnamespace
    where n.nspname = %(schema)s and c.relname = %(name)s
),

needed as (
    select a.attname, a.atttypid
    from this_table
    inner join pg_attribute as a on a.attrelid = this_table.oid
    where a.attname = any(%(columns)s::text[]) and not a.attisdropped
),

-- The type of each needed column, and the types within it.
parts (attname, type) as (
    select * from needed
    union
    select parts.attname, inner_type.type
    from parts
    inner join pg_type as t on t.oid = parts.type
"""
    + TYPES_WITHIN
    + """
),

-- The type of each column; a domain is followed down to the type that it is made of.
bases (attname, type, typmod) as (
    select a.attname, a.atttypid, a.atttypmod
    from this_table
    inner join pg_attribute as a on a.attrelid = this_table.oid
    where a.attnum > 0 and not a.attisdropped
    union
    select bases.attname, t.typbasetype, t.typtypmod
    from bases
    inner join pg_type as t on t.oid = bases.type and t.typtype = 'd'
),

-- Those that an index can have, with the most bytes that a value takes there; null has no limit.
index_sizes (attname, size) as (
    select
        bases.attname,
        case
            when t.typlen > 0 then t.typlen
            when t.typname in ('varchar', 'bpchar') and bases.typmod > 4
                then (bases.typmod - 4) * pg_encoding_max_length(d.encoding) + 4
            when t.typname = 'numeric' and bases.typmod >= 4
                then ((bases.typmod - 4) >> 16) / 2 + 12
            when t.typname in ('bit', 'varbit') and bases.typmod > 0 then bases.typmod / 8 + 9
            when t.typname in ('inet', 'cidr') then 24
        end
    from bases
    inner join pg_type as t on t.oid = bases.type and t.typtype <> 'd'
    inner join pg_database as d on d.datname = current_database()
    where
        t.typtype = 'e'
        or t.typname in ('varchar', 'cidr')
        or t.typcategory = 'A'
        or exists (
            select from pg_opclass as o
            inner join pg_am on pg_am.oid = o.opcmethod and pg_am.amname = 'btree'
            where o.opcdefault and o.opcintype = t.oid
        )
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
    -- An old row lacks the columns that an index only includes.
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
        where k.indrelid = c.oid and k.indimmediate
        and case c.relreplident when 'i' then k.indisreplident when 'd' then k.indisprimary end
    ),
    array(
        select k.name from keys as k
        where k.indrelid = c.oid and k.indisprimary and k.indimmediate
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
        select jsonb_object_agg(varying.attname, varying.type) from (
            select parts.attname::text, min(format_type(parts.type, null)) as type
            from parts
            inner join pg_type as t on t.oid = parts.type
            where
                t.typnamespace = 'pg_catalog'::regnamespace
                and t.typname = any(%(by_session)s)
            group by parts.attname
        ) as varying
    ), '{}'),
    array(
        select o.relname::text from pg_class as o
        where o.relnamespace = c.relnamespace and o.relname ~ '_replica_identity[_0-9]*$'
    ),
    coalesce((
        select jsonb_object_agg(bases.attname, format_type(bases.type, null))
        from bases
        inner join pg_type as t on t.oid = bases.type and t.typtype <> 'd'
        where bases.attname = any(%(columns)s::text[])
    ), '{}'),
    array(
        select format('%%I.%%I', n.nspname, child.relname)
        from pg_inherits as i
        inner join pg_class as child on child.oid = i.inhrelid
        inner join pg_namespace as n on n.oid = child.relnamespace
        -- Only the session that made it reads a temporary one.
        where i.inhparent = c.oid and c.relkind = 'r' and child.relpersistence <> 't'
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
    (select coalesce(jsonb_object_agg(attname, size), '{}') from index_sizes),
    coalesce((
        -- Before PostgreSQL 15 a publication names no columns, before 18 it has generated ones.
        select jsonb_object_agg(p.pubname, to_jsonb(published) -> 'attnames')
        from pg_publication_tables as published
        inner join pg_publication as p on p.pubname = published.pubname
        where
            (published.schemaname, published.tablename) = (%(schema)s, %(name)s)
            and (p.pubupdate or p.pubdelete)
            and exists (
                select from pg_attribute as a
                where
                    a.attrelid = c.oid
                    and a.attnum > 0
                    and not a.attisdropped
                    and (
                        a.attgenerated = ''
                        or current_setting('server_version_num')::int >= 180000
                    )
                    and not to_jsonb(published) -> 'attnames' ? a.attname::text
            )
    ), '{}'),
    array[
        c.reltuples,
        pg_table_size(c.oid),
        pg_stat_get_tuples_inserted(c.oid),
        pg_stat_get_tuples_updated(c.oid),
        pg_stat_get_tuples_deleted(c.oid)
    ]::double precision[]
from this_table
inner join pg_class as c on c.oid = this_table.oid
"""
)


def ask_table(
    connection: Connection,
    table: Table,
    models: Sequence[Model],
    root: Table | None = None,
) -> TableInfo:
    """Return what the catalog says of a table that the models need. Raises LoaderError.

    From a leaf the models need the same columns as from its `root`.
    """
    counted = root or table
    values = {
        "schema": table.schema,
        "name": table.name,
        "columns": list(needed_columns(models, counted)),
        "identity": list(identity_columns(models, counted)),
        "by_session": list(BY_SESSION),
    }
    rows = connection.ask(_TABLE, values)
    if not rows:
        return TableInfo(table)
    *plain, writes = rows[0]
    return TableInfo(table, *(*plain, Writes(*writes)))


# The same condition as in `table_checks.identity_wide`, for all leaves at once.
_NARROW = """
select c.oid::bigint
from pg_class as c
where
    c.oid = any(%(leaves)s::oid[])
    and c.relreplident <> 'f'
    and not coalesce((
        select array_agg(a.attname::text) @> %(needed)s::text[]
        from pg_index as i
        cross join unnest(i.indkey) with ordinality as k (attnum, place)
        inner join pg_attribute as a on a.attrelid = i.indrelid and a.attnum = k.attnum
        where
            i.indrelid = c.oid
            and i.indimmediate
            and k.place <= i.indnkeyatts
            and case c.relreplident when 'i' then i.indisreplident when 'd' then i.indisprimary end
    ), false)
"""


def ask_narrow_leaves(
    source: Connection, roots: Mapping[Table, Root], models: Sequence[Model]
) -> dict[Table, list[TableInfo]]:
    """Return the leaves whose replica identity lacks a column that the models need of an old row.

    They are listed by partitioned table. A new leaf does not inherit the identity of its parent.
    """
    narrow: dict[Table, list[TableInfo]] = {}
    for table in source_tables(models):
        if (root := roots.get(table)) is None:
            continue
        leaves = {
            leaf.oid: leaf.table for leaf in root.members if leaf.kind != "p" and not leaf.is_unfit
        }
        needed = list(identity_columns(models, table))
        rows = source.ask(_NARROW, {"leaves": list(leaves), "needed": needed})
        infos = [
            ask_table(source, leaf, models, table) for oid, leaf in leaves.items() if (oid,) in rows
        ]
        if infos:
            narrow[table] = infos
    return narrow


_QUERY = """
select coalesce(jsonb_object_agg(
    needed.label,
    jsonb_build_object('table_oid', c.oid::bigint, 'named_xid', t.xmin::text::bigint)
    || jsonb_build_object('column_numbers', (
        select coalesce(jsonb_object_agg(a.attname, a.attnum), '{}')
        from pg_attribute as a
        where
            a.attrelid = c.oid
            and not a.attisdropped
            and needed.columns ? a.attname::text
    ), 'names', (
        select jsonb_object_agg(a.attnum, a.attname)
        from pg_attribute as a
        where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
    ))
), '{}')
from jsonb_to_recordset(%s)
    as needed (label text, schema text, name text, columns jsonb)
inner join pg_namespace as n on n.nspname = needed.schema
inner join pg_class as c on c.relnamespace = n.oid and c.relname = needed.name
-- A sequence or an index has no row type, and is no table.
inner join pg_type as t on t.oid = c.reltype
"""

COUNTED = """
select
    registered_model.declared_name,
    baseline.snapshot_lsn::text,
    case when baseline.declared_name is not null then baseline.table_identities else (
        select jsonb_object_agg(table_schema || '.' || table_name, to_jsonb(logged))
        from {0}.logged_table as logged
        where logged.slot_name = registered_model.slot_name and table_oid is not null
    ) end
from {0}.registered_model
left join {0}.baseline using (slot_name, declared_name)
where registered_model.slot_name = %s
"""
"""Gives each model with the identities of the tables that its baseline counted.

Without a baseline they are those that setup read; null where nobody has read any."""


def read_counted(target: Target) -> dict[str, TableIdentities]:
    """Return the tables that each model counted; empty where not known. Raises LoaderError."""
    rows = target.ask_staging(COUNTED, (target.slot,))
    return {name: identities or {} for name, _, identities in rows}


def read_current(source: Connection, models: Sequence[Model]) -> TableIdentities:
    """Return the identities that the tables of the models have now. Raises LoaderError."""
    ((identities,),) = source.ask(_QUERY, (list_needs(models),))
    for table, labels in LabelCatalog(source, models).labels.items():
        if str(table) in identities:
            identities[str(table)]["labels"] = labels
    current: TableIdentities = identities
    return current
