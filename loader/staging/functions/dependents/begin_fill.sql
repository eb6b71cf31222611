-- Begin to fill a model over models, and return whether that was possible: with the locks of its inputs, or without
-- them. Then those who change an input see that it is being filled, and what they changed before this is no part of it:
-- the wait is for those who have left it out.
create or replace function cdc.begin_fill(model text, inputs text[], is_patient boolean) returns boolean
language plpgsql set search_path = pg_catalog, pg_temp set lock_timeout = '1s' as $$
begin
    if not cdc.lock_to_fill(model, coalesce(inputs, '{}'), case when is_patient then interval '1 s' end) then
        return false;
    end if;
    if inputs is null then
        perform pg_advisory_xact_lock(cdc.lock_key('fill', model));
    end if;
    -- Of a fill that was killed.
    delete from cdc.queued_change as queued where queued.relation = model;
    return true;
exception
    when lock_not_available or deadlock_detected then
        return false;
end
$$;
