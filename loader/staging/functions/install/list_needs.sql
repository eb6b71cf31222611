-- What a model needs of each source: the table, its needed columns in their order (as many entries for each table), which of
-- its changes are told apart (see write_reader), and the table's schema and name.
create or replace function cdc.list_needs(compiled jsonb) returns jsonb
language sql immutable set search_path = pg_catalog, pg_temp as $$
    with listed as (
        select
            source.place,
            source.value,
            array(
                select own.value ->> 'name'
                from jsonb_array_elements(source.value -> 'columns') with ordinality as own (value, place)
                where (own.value ->> 'is_needed')::boolean
                order by own.place
            ) as names
        from jsonb_array_elements(compiled -> 'sources') with ordinality as source (value, place)
    )

    select jsonb_agg(
        jsonb_build_array(
            value ->> 'table',
            to_jsonb(names || array_fill(null::text, array[(select max(cardinality(longest.names)) from listed as longest) - cardinality(names)])),
            case
                when compiled ->> 'kind' = 'rows' and not (compiled ->> 'has_old_rows')::boolean then '"each"'
                else value -> 'keeps_deleted'
            end,
            value ->> 'schema',
            substr(value ->> 'table', length(value ->> 'schema') + 2)
        )
        order by place
    )
    from listed
$$;
