-- Whether a model over models needs an index.
create or replace function cdc.is_index_needed(index text) returns boolean
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
    select exists (select from cdc.downstream_model as own where index = any (own.indexes))
$$;
