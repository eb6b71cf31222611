-- One step of one model that catches up with the others, which are at caught_up_lsn: a rebuild, or a batch of what it
-- lacks; `until` at the latest. Return whether it was tried: it moved, or what it failed with is written down.
create or replace function cdc.apply_catching_up(
    plan cdc.model_plan, caught_up_lsn pg_lsn, until pg_lsn, batch_size bigint
) returns boolean
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    to_lsn pg_lsn := least(coalesce(caught_up_lsn, greatest(plan.position_lsn, plan.from_lsn)), until);
begin
    if plan.step = 'add' then
        if plan.from_lsn >= until then
            return false;
        elsif to_lsn <= plan.from_lsn then
            update cdc.installed_model as stored
            set error = null, remedy = null, is_locked = false, failures = 0, retry_at = null
            where
                stored.slot_name = plan.slot_name
                and stored.relation = plan.relation
                and stored.error is not null;
            return false;
        end if;
        to_lsn := (cdc.batch_end(plan.slot_name, plan.from_lsn, to_lsn, batch_size)).end_lsn;
        -- One that failed may wait for a lock again: it joins only after it has succeeded without the others'.
        if to_lsn = caught_up_lsn and plan.error is null then
            -- The last piece: the others do not move on meanwhile.
            perform pg_advisory_xact_lock(cdc.lock_key('slot', plan.slot_name));
            caught_up_lsn := coalesce(cdc.caught_up_lsn(plan.slot_name), caught_up_lsn);
            perform cdc.see_partitions();
            to_lsn := (cdc.batch_end(plan.slot_name, plan.from_lsn, least(caught_up_lsn, until), batch_size)).end_lsn;
        end if;
    elsif to_lsn < plan.from_lsn then
        -- Its baseline is ahead of the others: it joins them once they are there.
        return false;
    end if;
    if cdc.try_models(array[plan], to_lsn, null, null, batch_size) = '{}' then
        return exists (
            select from cdc.installed_model as stored
            where
                stored.slot_name = plan.slot_name
                and stored.relation = plan.relation
                and stored.retry_at > clock_timestamp()
        );
    end if;
    perform cdc.notify_applied(plan.slot_name, to_lsn, array[plan.relation]);
    return true;
end
$$;
