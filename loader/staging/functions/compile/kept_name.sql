-- The column in which an aggregate is kept; null where none does.
create or replace function cdc.kept_name(kept jsonb, expression text) returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select min(one ->> 'name') from jsonb_array_elements(kept) as one where one ->> 'expression' = expression
$$;
