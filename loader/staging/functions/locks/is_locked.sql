-- Whether a session holds the advisory lock of a key, without taking it.
create or replace function cdc.is_locked(key bigint) returns boolean
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
begin
    return cdc.holder_of(key) is not null;
end
$$;
