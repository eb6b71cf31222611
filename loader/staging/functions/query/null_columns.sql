-- The columns of a source as nulls of their types.
create or replace function cdc.null_columns(source jsonb) returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select string_agg(format('null::%s as %I', value ->> 'type', value ->> 'name'), ', ' order by place)
    from jsonb_array_elements(source -> 'columns') with ordinality as one (value, place)
$$;
