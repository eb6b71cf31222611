-- What the catalog says of a table: the fields of TableInfo.
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
    {types_within}
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
        k.ordinal
    from pg_index as i
    inner join pg_class as x on x.oid = i.indexrelid
    cross join unnest(i.indkey) with ordinality as k (attnum, ordinal)
    inner join pg_attribute as a on a.attrelid = i.indrelid and a.attnum = k.attnum
    -- An old row lacks the columns that an index only includes.
    where k.ordinal <= i.indnkeyatts
)

select
    c.relkind::text as kind,
    c.relpersistence::text as persistence,
    coalesce((
        select jsonb_object_agg(a.attname, a.attnotnull) from pg_attribute as a
        where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
    ), '{}') as columns,
    c.relreplident::text as identity,
    array(
        select k.name from keys as k
        where k.indrelid = c.oid and k.indimmediate
        and case c.relreplident when 'i' then k.indisreplident when 'd' then k.indisprimary end
    ) as identity_columns,
    array(
        select k.name from keys as k
        where k.indrelid = c.oid and k.indisprimary and k.indimmediate
        order by k.ordinal
    ) as primary_key,
    (
        select k.index_name from keys as k
        where k.indrelid = c.oid and k.indisunique and k.indisvalid and k.indimmediate
        and k.indpred is null and k.indexprs is null
        group by k.index_name
        having array_agg(k.name) @> %(identity)s::text[] and bool_and(k.attnotnull)
        order by count(*), k.index_name
        limit 1
    ) as wide_index,
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
    ), '{}') as by_session,
    array(
        select o.relname::text from pg_class as o
        where o.relnamespace = c.relnamespace and o.relname ~ '_replica_identity[_0-9]*$'
    ) as names_taken,
    coalesce((
        select jsonb_object_agg(bases.attname, format_type(bases.type, null))
        from bases
        inner join pg_type as t on t.oid = bases.type and t.typtype <> 'd'
        where bases.attname = any(%(columns)s::text[])
    ), '{}') as types,
    array(
        select format('%%I.%%I', n.nspname, child.relname)
        from pg_inherits as i
        inner join pg_class as child on child.oid = i.inhrelid
        inner join pg_namespace as n on n.oid = child.relnamespace
        -- Only the session that made it reads a temporary one.
        where i.inhparent = c.oid and c.relkind = 'r' and child.relpersistence <> 't'
        order by child.oid
    ) as heirs,
    coalesce((
        select jsonb_object_agg(a.attname, concat(
            format_type(a.atttypid, a.atttypmod),
            ' generated always as (', pg_get_expr(d.adbin, d.adrelid), ') stored',
            case when a.attnotnull then ' not null' end
        ))
        from pg_attribute as a
        inner join pg_attrdef as d on d.adrelid = a.attrelid and d.adnum = a.attnum
        where a.attrelid = c.oid and a.attgenerated = 'v' and a.attname = any(%(columns)s::text[])
    ), '{}') as virtual,
    (select coalesce(jsonb_object_agg(attname, size), '{}') from index_sizes) as index_sizes,
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
    ), '{}') as partly_published,
    array[
        c.reltuples,
        pg_table_size(c.oid),
        pg_stat_get_tuples_inserted(c.oid),
        pg_stat_get_tuples_updated(c.oid),
        pg_stat_get_tuples_deleted(c.oid)
    ]::double precision[] as writes
from this_table
inner join pg_class as c on c.oid = this_table.oid
