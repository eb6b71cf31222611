-- The inputs with the columns that the query names: with `is_needed`, those on whose values its result depends.
create or replace function cdc.needed_sources(sources jsonb, nodes cdc.tree_node[], options jsonb) returns jsonb
language sql stable set search_path = pg_catalog, pg_temp as $$
    select jsonb_agg(
        case when source.value ? 'model' then jsonb_build_object(
            'model', source.value -> 'model', 'schema', source.value -> 'schema', 'name', source.value -> 'name',
            'key', (
                select coalesce(jsonb_agg(jsonb_build_object('name', own.value -> 'name', 'type', own.value -> 'type') order by own.ordinal), '[]')
                from jsonb_array_elements(source.value -> 'columns') with ordinality as own (value, ordinal)
                where source.value -> 'key' ? (own.value ->> 'name')
            )
        )
        else jsonb_build_object(
            'table', source.value ->> 'table',
            'schema', source.value ->> 'schema',
            'keeps_deleted', coalesce(options -> 'ignore_deletes' ? (source.value ->> 'table'), false)
        ) end || jsonb_build_object(
            'columns', coalesce((
                select jsonb_agg(
                    jsonb_build_object(
                        'name', listed.value ->> 'name',
                        'type', case when listed.value ->> 'type' = 'other'
                            then 'text' else listed.value ->> 'type' end,
                        'is_needed', read.is_needed
                    ) || case when listed.value ? 'is_never_null' then '{"is_never_null": true}' else '{}' end::jsonb
                    || case when listed.value ? 'exact' then jsonb_build_object('exact', listed.value -> 'exact') else '{}' end
                    || case when listed.value ? 'collation' then jsonb_build_object('collation', listed.value -> 'collation') else '{}' end
                    || case when listed.value ? 'is_domain' then '{"is_domain": true}' else '{}' end::jsonb
                    -- PostgreSQL may print what columns of a joined model are called, one by one.
                    order by case when source.value ? 'model' then listed.ordinal end, listed.value ->> 'name' collate "C"
                )
                from jsonb_array_elements(source.value -> 'columns') with ordinality as listed (value, ordinal)
                inner join cdc.read_columns(nodes) as read
                    on
                        read.relation = to_regclass('pg_temp.waltally_source_' || source.ordinal::text)
                        and read.column_number = listed.ordinal
            ), '[]')
        )
        order by source.ordinal
    )
    from jsonb_array_elements(sources) with ordinality as source (value, ordinal)
$$;
