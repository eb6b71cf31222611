-- A compiled model as an input of compile_query; `relation` says how the query names it, and where it is.
create or replace function cdc.as_input(relation jsonb, declared jsonb) returns jsonb
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select relation - 'materialized' || jsonb_build_object(
        'key', jsonb_path_query_array(declared, '$.keys[*].name'),
        'columns', (
            select jsonb_agg(jsonb_build_object(
                'name', one.name, 'type', one.type
            ) || jsonb_strip_nulls(jsonb_build_object('exact', one.exact, 'collation', declared #> array['collations', one.name])) || case
                -- A table's primary key.
                when one.kind = 'key' and declared ->> 'kind' = 'rows' then '{"is_never_null": true}' else '{}'
            end::jsonb order by one.ordinal)
            from cdc.list_columns(declared) as one where one.is_shown
        )
    )
$$;
