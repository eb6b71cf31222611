-- Lock a model over models that is to be filled, and these that are below it, and return whether that was possible.
-- Whoever applies locks what is below first and does not wait for it, so a patient caller, for whom nobody waits, waits
-- there so long: else slots that are busy would never let it begin, or end. A dependent that somebody has is not waited
-- for.
create or replace function cdc.lock_to_fill(model text, inputs text[], patience interval) returns boolean
language plpgsql set search_path = pg_catalog, pg_temp set lock_timeout = '1s' as $$
declare
    needed record;
begin
    perform set_config('lock_timeout', extract(epoch from patience) || 's', true) where patience is not null;
    for needed in
        select own.relation, dependent.relation is not null as is_dependent
        from unnest(inputs || model) as own (relation)
        left join cdc.dependent_model as dependent on dependent.relation = own.relation
        order by is_dependent, own.relation collate "C"
    loop
        continue when pg_try_advisory_xact_lock(cdc.lock_key('model', needed.relation));
        if needed.is_dependent or patience is null then
            return false;
        end if;
        perform pg_advisory_xact_lock(cdc.lock_key('model', needed.relation));
    end loop;
    return true;
exception
    when lock_not_available or deadlock_detected then
        return false;
end
$$;
