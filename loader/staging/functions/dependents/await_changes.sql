-- Wait until who changes a model at this moment has ended, and keep nobody from changing it then: a lock is given back
-- where what was done since a savepoint is undone.
create or replace function cdc.await_changes(model text) returns void
language plpgsql set search_path = pg_catalog, pg_temp set lock_timeout = '10s' as $$
begin
    perform pg_advisory_xact_lock(cdc.lock_key('model', model));
    raise exception 'the lock is given back' using errcode = 'WL001';
exception
    when sqlstate 'WL001' then null;
end
$$;
