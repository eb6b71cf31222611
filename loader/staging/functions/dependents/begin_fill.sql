-- Begin to fill a model over models, and return whether that was possible: with the locks of its inputs, or without
-- them. Then those who change an input see that it is being filled, and what they changed before this is no part of it:
-- the wait is for those who have left it out, and for those who began before it was installed and do not know it.
create or replace function cdc.begin_fill(model text, inputs text[], is_locked boolean, is_patient boolean)
returns boolean
language plpgsql set search_path = pg_catalog, pg_temp set lock_timeout = '1s' as $$
begin
    if not cdc.lock_to_fill(
        model, case when is_locked then inputs else '{}' end, case when is_patient then interval '1 s' end
    ) then
        return false;
    end if;
    if not is_locked then
        perform pg_advisory_xact_lock(cdc.lock_key('fill', model));
        perform cdc.await_changes(input) from unnest(inputs) as input;
    end if;
    -- Of a fill that was killed.
    delete from cdc.queued_change as queued where queued.relation = model;
    return true;
exception
    when lock_not_available or deadlock_detected then
        return false;
end
$$;
