-- SQL: the tables of a model's sources, as an array.
create or replace function cdc.write_tables(compiled jsonb) returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select format('%L::text[]', array(select jsonb_array_elements_text(jsonb_path_query_array(compiled, '$.sources[*].table'))))
$$;
