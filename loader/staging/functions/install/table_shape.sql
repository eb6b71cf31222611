-- The shape of a table: columns and keys, as the database reads a query over it. Where it is at another source, the
-- loader reads it there by this text. A domain is what it is made of, and a label of an enum is text. `exact` is a type
-- with its length, `collation` one that is not the database's, and `collation_is` what the server takes that name for.
create or replace function cdc.table_shape(schema_name text, table_name text) returns jsonb
language sql stable set search_path = pg_catalog, pg_temp as $$
    with recursive this_table as (
        select c.oid
        from pg_class as c
        inner join pg_namespace as n on n.oid = c.relnamespace
        where n.nspname = schema_name and c.relname = table_name
    ),

    bases as (
        select a.attnum, a.attname, a.atttypid as type_oid, a.atttypmod as typmod, a.attcollation, false as is_domain
        from pg_attribute as a
        where a.attrelid = (select oid from this_table) and a.attnum > 0 and not a.attisdropped
        union all
        select bases.attnum, bases.attname, t.typbasetype, greatest(bases.typmod, t.typtypmod), bases.attcollation, true
        from bases
        inner join pg_type as t on t.oid = bases.type_oid and t.typtype = 'd'
    )

    select jsonb_build_object(
        'columns', coalesce(jsonb_agg(
            jsonb_build_object('number', bases.attnum, 'name', bases.attname, 'type', case
                when 'e' in (t.typtype, element.typtype) then 'text'
                when named.is_other then 'other'
                -- Without quotes these two are other types.
                when named.name in ('bit', 'char') then quote_ident(named.name)
                when extended.oid is not null then format('%I.%I', extended.nspname, named.name)
                else named.name
            end || case when element.oid is null or named.is_other then '' else '[]' end)
            || case when bases.typmod <> -1 and not named.is_other then jsonb_build_object('exact', format_type(t.oid, bases.typmod)) else '{}' end
            || case when bases.is_domain then '{"is_domain": true}' else '{}' end::jsonb
            || case when c.oid is null then '{}' else jsonb_build_object(
                'collation', format('%I.%I', of_schema.nspname, c.collname),
                'collation_is', concat_ws(
                    ' ', c.collprovider, c.collcollate, to_jsonb(c) ->> 'colliculocale', to_jsonb(c) ->> 'colllocale', c.collisdeterministic
                )
            ) end
            || case
                when 'e' in (t.typtype, element.typtype) then jsonb_build_object('labels', (
                    select jsonb_agg(e.enumlabel order by e.enumsortorder)
                    from pg_enum as e
                    where e.enumtypid = coalesce(element.oid, t.oid)
                ))
                else '{}'
            end
            order by bases.attnum
        ), '[]'),
        'key', coalesce((
            select jsonb_agg(a.attname order by k.ordinal)
            from pg_index as x
            cross join unnest(x.indkey) with ordinality as k (attnum, ordinal)
            inner join pg_attribute as a on a.attrelid = x.indrelid and a.attnum = k.attnum
            where x.indrelid = (select oid from this_table) and x.indisprimary and k.ordinal <= x.indnkeyatts
        ), '[]'),
        'is_key_deferrable', exists (
            select from pg_index as x
            where x.indrelid = (select oid from this_table) and x.indisprimary and not x.indimmediate
        ),
        'has_old_rows', exists (
            select from pg_class as c where c.oid = (select oid from this_table) and c.relreplident = 'f'
        )
    )
    from bases
    inner join pg_type as t on t.oid = bases.type_oid and t.typtype <> 'd'
    left join pg_type as element on element.oid = t.typelem and t.typcategory = 'A'
    left join pg_collation as c on c.oid = bases.attcollation and c.collprovider <> 'd'
    left join pg_namespace as of_schema on of_schema.oid = c.collnamespace
    -- See is_of_extension.
    left join pg_roles as r on r.rolsuper and r.oid = coalesce(element.typowner, t.typowner) and coalesce(element.typtype, t.typtype) = 'b'
    left join pg_depend as d on d.classid = 'pg_type'::regclass and d.objid = coalesce(element.oid, t.oid) and d.deptype = 'e' and r.rolsuper
    left join pg_namespace as extended on extended.oid = coalesce(element.typnamespace, t.typnamespace) and d.objid is not null
    cross join lateral (
        select
            coalesce(element.typname, t.typname) as name,
            'e' not in (t.typtype, coalesce(element.typtype, t.typtype)) and (
                coalesce(element.typnamespace, t.typnamespace) <> 'pg_catalog'::regnamespace and extended.oid is null
                or coalesce(element.typname, t.typname) ~ '^(money|reg.*)$'
            ) as is_other
    ) as named
$$;
