-- Take away what is older than it is kept of each model's changes, where nothing is written to them any more.
create or replace function cdc.prune_changes() returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    own record;
begin
    for own in
        select kept.relation, kept.routine from cdc.dependent_model as kept
        where kept.declaration ->> 'kind' = 'changes' order by kept.relation
    loop
        if pg_try_advisory_xact_lock(cdc.lock_key('model', own.relation)) then
            perform cdc.step_dependent(own.routine, 'prune');
        end if;
    end loop;
end
$$;

revoke execute on function cdc.prune_changes() from public;
