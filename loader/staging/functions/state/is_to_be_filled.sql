-- Whether a model over models is to be filled again: until then it takes no changes.
-- Not in the language sql: the server would plan its query at each call.
create or replace function cdc.is_to_be_filled(model text) returns boolean
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
    return exists (select from cdc.to_fill as asked where asked.relation = model);
end
$$;
