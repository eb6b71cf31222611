-- Which of the kept aggregates one is; null where it is not kept.
create or replace function cdc.kept_place(kept jsonb, expression text) returns bigint
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select min(place) from jsonb_array_elements(kept) with ordinality as one (value, place)
    where one.value ->> 'expression' = expression
$$;
