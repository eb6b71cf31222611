-- Whether a row of a query's result can be made of all of these inputs.
create or replace function cdc.meet(compiled jsonb, numbers integer[]) returns boolean
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select exists (select from jsonb_array_elements(compiled #> '{joins,terms}') as term where term.value @> to_jsonb(numbers))
$$;
