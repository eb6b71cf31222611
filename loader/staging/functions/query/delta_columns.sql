-- SQL: the columns of what write_deltas' function returns, with their types.
create or replace function cdc.delta_columns(compiled jsonb) returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select 'waltally_source_no integer, waltally_archived_lsn pg_lsn, ' || string_agg(
        format('%I %s', value ->> 'name', case when place > jsonb_array_length(compiled -> 'keys') then 'numeric' else value ->> 'type' end),
        ', ' order by place
    )
    from jsonb_array_elements((compiled -> 'keys') || (compiled -> 'kept')) with ordinality as one (value, place)
$$;
