-- Whether another model takes what this one changes. It stays so while the caller has the model's lock.
-- Not in the language sql: the server would plan its query at each call.
create or replace function cdc.has_dependents(model text) returns boolean
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    return exists (
        select from cdc.dependent_input as input
        where input.input_relation = model and cdc.takes_changes(input.relation)
    );
end
$$;
