-- Take away what is older than it is kept of a model's changes, where nothing is written to them at this moment. What
-- fails, because somebody has locked them or dbt installs the model again, is left to the next prune: whoever writes to
-- them says it.
create or replace function cdc.prune_changes(model text) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if pg_try_advisory_xact_lock(cdc.lock_key('model', model)) then
        perform cdc.step_dependent(own.routine, 'prune')
        from cdc.dependent_model as own
        where own.relation = model and own.declaration ->> 'kind' = 'changes';
    end if;
exception
    when others then null;
end
$$;

revoke execute on function cdc.prune_changes(text) from public;
