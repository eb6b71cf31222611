-- Whether time-zone data decide what a query gives: it calls a function that reads or gives a timestamptz in a zone.
create or replace function cdc.is_zoned(nodes cdc.tree_node[]) returns boolean
language sql stable set search_path = pg_catalog, pg_temp as $$
    select exists (
        select from unnest(nodes) as node
        inner join pg_proc as p
            on p.oid = coalesce(node.fields ->> 'funcid', node.fields ->> 'aggfnoid', node.fields ->> 'opfuncid')::oid
        where
            p.prokind = 'f'
            and 'timestamptz'::regtype = any (p.proargtypes::oid[] || p.prorettype)
            and p.proname !~ '^timestamptz_(eq|ne|lt|le|gt|ge|mi)$'
    )
$$;
