-- The session that holds the advisory lock of a key, or one of them; null where none does.
create or replace function cdc.holder_of(key bigint) returns integer
language sql volatile set search_path = pg_catalog, pg_temp as $$
    select min(lock.pid)
    from pg_locks as lock
    where
        lock.locktype = 'advisory'
        and lock.objsubid = 1
        and lock.classid::bigint = key >> 32 & 4294967295
        and lock.objid::bigint = key & 4294967295
        and lock.database = (select oid from pg_database where datname = current_database())
        and lock.granted
$$;
