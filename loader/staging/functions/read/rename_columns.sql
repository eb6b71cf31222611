-- Sources of a query whose columns that were renamed have the names of now; see same_rows.
create or replace function cdc.rename_columns(sources jsonb) returns jsonb
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select jsonb_agg(
        case when source.value @? '$.columns[*].renamed' then source.value || jsonb_build_object(
            'columns', (
                select jsonb_agg((one.value - 'renamed') || jsonb_build_object('name', coalesce(one.value -> 'renamed', one.value -> 'name')) order by one.ordinal)
                from jsonb_array_elements(source.value -> 'columns') with ordinality as one (value, ordinal)
            ),
            'key', (
                select coalesce(jsonb_agg(coalesce(one.value -> 'renamed', key.value) order by key.ordinal), '[]')
                from jsonb_array_elements(source.value -> 'key') with ordinality as key (value, ordinal)
                left join jsonb_array_elements(source.value -> 'columns') as one (value) on one.value -> 'name' = key.value
            )
        ) else source.value end
        order by source.ordinal
    )
    from jsonb_array_elements(sources) with ordinality as source (value, ordinal)
$$;
