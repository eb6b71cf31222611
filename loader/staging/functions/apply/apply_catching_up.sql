-- One step of one model that catches up with the others, which are at caught_up_lsn: a rebuild, or a batch of what it
-- lacks; `until` at the latest. Return whether it was tried: it moved, or what it failed with is written down. So it
-- was where the slot's lock was taken: that is kept till the transaction ends, and nothing long may follow.
create or replace function cdc.apply_catching_up(
    plan cdc.model_plan, caught_up_lsn pg_lsn, until pg_lsn, batch_size bigint
) returns boolean
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    model constant text := plan.relation;
    -- What the plan knows of the log ends at its position.
    planned_lsn constant pg_lsn := greatest(plan.position_lsn, plan.from_lsn);
    to_lsn pg_lsn := least(coalesce(caught_up_lsn, planned_lsn), planned_lsn, until);
    is_last boolean := false;
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
        is_last := to_lsn = caught_up_lsn and plan.error is null;
        if is_last then
            -- Who builds it alone, as dbt does, is not waited for under the slot's lock.
            if cdc.holder_of(cdc.lock_key('model', model))
                <> coalesce(cdc.holder_of(cdc.lock_key('slot', plan.slot_name)), 0)
            then
                return false;
            end if;
            -- The last piece: the others do not move on meanwhile.
            perform pg_advisory_xact_lock(cdc.lock_key('slot', plan.slot_name));
            -- They may have while this waited, to where a loader has seen that the log lacks what the model needs.
            caught_up_lsn := coalesce(cdc.caught_up_lsn(plan.slot_name), caught_up_lsn);
            select planned.* into plan
            from cdc.plan_models(plan.slot_name) as planned
            where planned.relation = model and planned.step = 'add' and planned.from_lsn < least(caught_up_lsn, until);
            if not found then
                return true;
            end if;
            perform cdc.see_partitions();
            to_lsn := (cdc.batch_end(plan.slot_name, plan.from_lsn, least(caught_up_lsn, until), batch_size)).end_lsn;
        end if;
    elsif to_lsn < plan.from_lsn then
        -- Its baseline is ahead of the others: it joins them once they are there.
        return false;
    end if;
    if cdc.try_models(array[plan], to_lsn, null, null, batch_size) = '{}' then
        return is_last or exists (
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
