-- Which parts of meaning() decide what a query gives: one that calls a function may give something else by another
-- major version of PostgreSQL; a timestamptz in a zone by other time-zone data; texts that are compared, or a text in
-- the key, which has an index, by another version of the default collation.
create or replace function cdc.relied_on(nodes cdc.tree_node[], compiled jsonb) returns jsonb
language sql stable set search_path = pg_catalog, pg_temp as $$
    with call as (
        select
            -- Not a cast.
            node.type = 'FUNCEXPR' and node.fields ->> 'funcformat' in ('0', '3') as is_function,
            p.prokind = 'f'
            and 'timestamptz'::regtype = any (p.proargtypes::oid[] || p.prorettype)
            and p.proname !~ '^timestamptz_(eq|ne|lt|le|gt|ge|mi)$' as is_zoned,
            -- Neither without a collation nor by "C"; what is equal is so by its bytes, and a unit or a zone is a word.
            node.fields ->> 'inputcollid' not in ('0', '950')
            and p.proname !~ '^(text|bpchar|name)(eq|ne|like|nlike)$|^(count|timezone|date_trunc|date_part|extract)$'
            as is_collated
        from unnest(nodes) as node
        inner join pg_proc as p
            on p.oid = coalesce(node.fields ->> 'funcid', node.fields ->> 'aggfnoid', node.fields ->> 'opfuncid')::oid
    )

    select to_jsonb(array_remove(array[
        case when bool_or(call.is_function or call.is_zoned or call.is_collated) then 'major version' end,
        case when bool_or(call.is_zoned) then 'time-zone data' end,
        case when compiled @? '$.keys[*] ? (@.type == "text")' or bool_or(call.is_collated) then 'collation version' end
    ], null))
    from call
$$;
