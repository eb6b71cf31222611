-- What the tables of models and their needed columns are, and the enums among the columns' types.
with recursive listed as (
    select own.*, c.oid
    from jsonb_to_recordset(%(tables)s)
        as own (relation text, schema text, name text, columns jsonb, key jsonb)
    inner join pg_namespace as n on n.nspname = own.schema
    inner join pg_class as c on c.relnamespace = n.oid and c.relname = own.name
),

-- An enum may stand within an array, a domain, a range or a composite.
parts (relation, name, type, modifier) as (
    select listed.relation, a.attname, a.atttypid, a.atttypmod
    from listed
    inner join pg_attribute as a on a.attrelid = listed.oid and not a.attisdropped
    where listed.columns ? a.attname::text
    union
    select
        parts.relation,
        parts.name,
        inner_type.type,
        case when t.typtype = 'd' then t.typtypmod else parts.modifier end
    from parts
    inner join pg_type as t on t.oid = parts.type
    {types_within}
),

named as (
    select parts.relation, parts.name, e.oid::text as id, e.enumlabel::text as text
    from parts
    inner join pg_enum as e on e.enumtypid = parts.type
    union all
    select parts.relation, parts.name, 'type', string_agg(coalesce((
        select '(' || string_agg(format_type(a.atttypid, null), ', ' order by a.attnum) || ')'
        from pg_attribute as a
        where a.attrelid = t.typrelid and a.attnum > 0 and not a.attisdropped
    ), case t.typname
        when 'varchar' then 'text'
        when 'interval' then format_type(t.oid, parts.modifier)
        else format_type(t.oid, null)
    end), ', ' order by t.oid)
    from parts
    inner join pg_type as t on t.oid = parts.type
    where t.typtype = 'c' or t.typname = any(%(read_alike)s)
    group by 1, 2
    union all
    -- After the point, of a number or of seconds.
    select parts.relation, parts.name, 'digits', min(case
        when t.typname <> 'numeric' then coalesce(nullif(parts.modifier, -1), 6)
        when parts.modifier = -1 then 16383
        -- Eleven bits with a sign.
        else ((parts.modifier - 4) & 2047 # 1024) - 1024
    end)::text
    from parts
    inner join pg_type as t on t.oid = parts.type
    where t.typname in ('numeric', 'time', 'timetz', 'timestamp', 'timestamptz')
    group by 1, 2
    union all
    select listed.relation, a.attname, 'number', a.attnum::text
    from listed
    inner join pg_attribute as a on a.attrelid = listed.oid and not a.attisdropped
    where listed.columns ? a.attname::text
    union all
    select listed.relation, '', own.*
    from listed
    inner join pg_class as c on c.oid = listed.oid
    inner join pg_type as t on t.oid = c.reltype
    cross join lateral (values
        ('oid', c.oid::text),
        ('persistence', c.relpersistence::text),
        ('heirs', (
            select string_agg(heir.oid::regclass::text, ', ' order by heir.oid)
            from pg_inherits as i
            inner join pg_class as heir on heir.oid = i.inhrelid and heir.relpersistence <> 't'
            where i.inhparent = c.oid and c.relkind = 'r'
        )),
        -- Of a partitioned table the leaves have names of their own.
        ('last renaming', case when c.relkind = 'r' then t.xmin::text end)
    ) as own (id, text)
    union all
    select listed.relation, key.name, 'key', (
        select string_agg(quote_ident(a.attname), ', ' order by a.attname collate "C")
        from pg_index as i
        inner join pg_attribute as a on a.attrelid = i.indrelid and a.attnum = any (i.indkey)
        where i.indrelid = listed.oid and i.indisprimary and i.indimmediate
    )
    from listed
    cross join jsonb_array_elements_text(listed.key) as key (name)
),

by_column as (
    select named.relation, named.name, jsonb_object_agg(named.id, named.text) as columns
    from named
    group by 1, 2
)

select
    (
        select coalesce(jsonb_object_agg(listed.relation, jsonb_build_object(
            'table_oid', c.oid::bigint,
            'named_xid', t.xmin::text::bigint,
            'names', (
                select jsonb_object_agg(a.attnum, a.attname)
                from pg_attribute as a
                where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
            ),
            'fingerprint', (
                select jsonb_object_agg(by_column.name, by_column.columns)
                from by_column
                where by_column.relation = listed.relation
            )
        )), '{}')
        from listed
        inner join pg_class as c on c.oid = listed.oid
        -- A sequence or an index has no row type, and is no table.
        inner join pg_type as t on t.oid = c.reltype
    ),
    (
        select coalesce(jsonb_agg(distinct parts.type::bigint), '[]')
        from parts
        inner join pg_type as t on t.oid = parts.type and t.typtype = 'e'
    ),
    -- Read after the snapshot was taken: what the snapshot shows was committed before.
    pg_current_wal_insert_lsn(),
    pg_current_snapshot()::text
