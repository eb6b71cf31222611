-- What a query needs of each of its sources: {"schema.table": ["column", ...]}, as installed_model.needed.
create or replace function cdc.needed_columns(declaration jsonb) returns jsonb
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select jsonb_object_agg(
        source ->> 'table', jsonb_path_query_array(source, '$.columns[*] ? (@.is_needed == true).name')
    )
    from jsonb_array_elements(declaration -> 'sources') as source
$$;
