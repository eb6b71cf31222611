-- Whether an index is not there that a model over models needs on an input.
create or replace function cdc.lacks_index(model text) returns boolean
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
    return exists (
        select from cdc.dependent_model as own
        cross join jsonb_array_elements(own.indexes) as needed
        where own.relation = model and not cdc.has_index(needed.value)
    );
end
$$;
