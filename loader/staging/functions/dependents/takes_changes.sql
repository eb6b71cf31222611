-- Whether a model over models takes what its inputs change: it is full, or is being filled. It stays so while
-- the caller has an input's lock.
create or replace function cdc.takes_changes(model text) returns boolean
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    return not cdc.is_to_be_filled(model) or cdc.is_being_filled(model);
end
$$;
