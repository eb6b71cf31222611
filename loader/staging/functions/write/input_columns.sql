-- Of a model that a query names several times, every column that it reads there, with the model's key: as an input.
create or replace function cdc.input_columns(compiled jsonb, model text) returns jsonb
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select jsonb_build_object(
        'schema', min(input.value ->> 'schema'),
        'name', min(input.value ->> 'name'),
        'columns', (
            select coalesce(jsonb_agg(jsonb_build_object('name', listed.name, 'type', listed.type) order by listed.name collate "C"), '[]')
            from (
                select column_of.value ->> 'name' as name, column_of.value ->> 'type' as type
                from jsonb_array_elements(compiled -> 'inputs') as named
                cross join jsonb_array_elements(named.value -> 'columns') as column_of
                where named.value ->> 'model' = input_columns.model and (column_of.value ->> 'is_needed')::boolean
                union
                select key.value ->> 'name', key.value ->> 'type'
                from jsonb_array_elements(compiled -> 'inputs') as named
                cross join jsonb_array_elements(named.value -> 'key') as key
                where named.value ->> 'model' = input_columns.model
            ) as listed
        )
    )
    from jsonb_array_elements(compiled -> 'inputs') as input
    where input.value ->> 'model' = input_columns.model
$$;
