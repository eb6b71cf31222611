-- Whether a session holds the advisory lock of a key, without taking it.
create or replace function cdc.is_locked(key bigint) returns boolean
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
begin
    return (
        select exists (
            select from pg_locks as lock
            where
                lock.locktype = 'advisory'
                and lock.objsubid = 1
                and lock.classid::bigint = key >> 32 & 4294967295
                and lock.objid::bigint = key & 4294967295
                and lock.database = (select oid from pg_database where datname = current_database())
                and lock.granted
        )
    );
end
$$;
