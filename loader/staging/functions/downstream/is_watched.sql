-- Whether another model has to be told what this one changes. It stays so while the caller has the model's lock.
-- Not in the language sql: the server would plan its query at each call.
create or replace function cdc.is_watched(model text) returns boolean
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    return exists (
        select from cdc.downstream_input as input
        where input.input_relation = model and cdc.is_told(input.relation)
    );
end
$$;
