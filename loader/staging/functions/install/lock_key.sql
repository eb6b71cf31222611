-- One key for each thing that is locked: by its kind and its name.
create or replace function cdc.lock_key(kind text, name text) returns bigint
language sql immutable strict parallel safe as $$
    select pg_catalog.hashtextextended('waltally ' || kind || ' ' || name, 0)
$$;
