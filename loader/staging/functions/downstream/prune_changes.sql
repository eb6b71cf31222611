-- Take away what is older than it is kept of each model's changes, where nothing is written to them any more.
create or replace function cdc.prune_changes() returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    own record;
    target record;
begin
    for own in
        select kept.model_name, kept.routine from cdc.downstream_model as kept
        where kept.declaration ->> 'kind' = 'changes' order by kept.model_name
    loop
        continue when not pg_try_advisory_xact_lock(cdc.lock_key('model', own.model_name));
        target := cdc.find_installed(
            own.routine, '(text, text, anyarray, anyarray, anycompatiblearray)', array['anycompatiblearray', 'anycompatiblearray']
        );
        execute format('select from %s(cdc.unless_replaced($1, $2, $3), null, null::text[], null, null::text[])', target.name)
        using 'prune', target.oid, target.version;
    end loop;
end
$$;

revoke execute on function cdc.prune_changes() from public;
