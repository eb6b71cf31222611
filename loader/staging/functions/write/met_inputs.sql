-- The inputs that a row of a query's result can be made of together with one of these, or with all of them.
create or replace function cdc.met_inputs(compiled jsonb, numbers integer[], is_any boolean) returns integer[]
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select array(
        select distinct met.number::integer
        from jsonb_array_elements(compiled #> '{joins,terms}') as term
        cross join jsonb_array_elements_text(term.value) as met (number)
        where case when is_any then exists (
            select from unnest(numbers) as own (number) where term.value @> to_jsonb(own.number)
        ) else term.value @> to_jsonb(numbers) end
    )
$$;
