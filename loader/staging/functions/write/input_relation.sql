-- An input's table as SQL writes it.
create or replace function cdc.input_relation(compiled jsonb, number integer) returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select format('%I.%I', compiled -> 'inputs' -> (number - 1) ->> 'schema', compiled -> 'inputs' -> (number - 1) ->> 'name')
$$;
