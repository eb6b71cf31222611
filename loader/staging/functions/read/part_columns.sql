-- What a model of several sources keeps of each of them but the last, so that a TRUNCATE of one can be taken away: what
-- the last one has is the rest.
create or replace function cdc.part_columns(compiled jsonb)
returns table (source_no integer, state_name text, name text, type text, ordinal bigint)
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select
        number,
        value ->> 'name',
        cdc.part_name(number, value ->> 'name'),
        value ->> 'type',
        row_number() over (order by number, state.ordinal)
    from generate_series(1, jsonb_array_length(compiled -> 'sources') - 1) as number
    cross join jsonb_array_elements(compiled -> 'state_columns') with ordinality as state (value, ordinal)
$$;
