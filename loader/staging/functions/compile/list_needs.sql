-- What a model needs of each source: the table, its needed columns in their order (as many entries for each table),
-- which of its changes are told apart (see write_reader), the table's schema and name, and what columns were called
-- before: {"column": {"former": ["name"], "until": "LSN"}}.
create or replace function cdc.list_needs(compiled jsonb) returns jsonb
language sql immutable set search_path = pg_catalog, pg_temp as $$
    with listed as (
        select
            source.ordinal,
            source.value,
            jsonb_path_query_array(source.value, '$.columns[*] ? (@.is_needed == true).name') as names
        from jsonb_array_elements(compiled -> 'sources') with ordinality as source (value, ordinal)
    )

    select jsonb_agg(
        jsonb_build_array(
            value ->> 'table',
            names || to_jsonb(array_fill(null::text, array[
                (select max(jsonb_array_length(longest.names)) from listed as longest) - jsonb_array_length(names)
            ])),
            case
                when compiled ->> 'kind' = 'rows' and not (compiled ->> 'has_old_rows')::boolean then '"each"'
                else value -> 'keeps_deleted'
            end,
            value ->> 'schema',
            substr(value ->> 'table', length(value ->> 'schema') + 2)
        ) || coalesce((
            select jsonb_build_array(jsonb_object_agg(own ->> 'name', own -> 'renamed'))
            from jsonb_path_query(value, '$.columns[*] ? (@.is_needed == true && exists (@.renamed))') as own
            having count(*) > 0
        ), '[]')
        order by ordinal
    )
    from listed
$$;
