-- Add what a Spark job has computed of a model's changes from from_lsn up to to_lsn. Only where the model is
-- declared as the job read it, stands on this baseline and begins at from_lsn: so whatever is killed, repeated
-- or done by two at once, each change counts once. Return whether the model is at to_lsn; if not, its plan is
-- another one now, or an error is in model_state.
create or replace function cdc.apply_computed(
    slot text, model text, declaration jsonb, baseline_id uuid, from_lsn pg_lsn, to_lsn pg_lsn,
    computed cdc.computed_batch
) returns boolean
language plpgsql security definer
-- As apply sets them.
set search_path = pg_catalog, pg_temp
set jit from current
set row_security from current
set standard_conforming_strings from current
set transform_null_equals from current
set DateStyle from current
set IntervalStyle from current
set TimeZone from current
set xmloption from current
set extra_float_digits from current
set bytea_output from current
as $$
declare
    plan cdc.model_plan;
begin
    -- An audit that compares the models at a snapshot lets nobody add meanwhile.
    perform pg_advisory_xact_lock_shared(cdc.lock_key('computed', slot));
    select ready.* into plan
    from cdc.plan_models(slot) as ready
    where ready.relation = model and ready.engine = 'spark' and ready.step is not null;
    if (plan.declaration, plan.baseline_id, plan.from_lsn)
        is distinct from (apply_computed.declaration, apply_computed.baseline_id, apply_computed.from_lsn)
        or cdc.try_models(array[plan], to_lsn, null, null, cdc.batch_size(), computed) = '{}'
    then
        return false;
    end if;
    perform cdc.notify_applied(slot, to_lsn, array[model]);
    -- Not so where a TRUNCATE makes it start from its baseline.
    return exists (
        select from cdc.model_watermark as mark
        where mark.slot_name = slot and mark.relation = model and mark.applied_lsn = to_lsn
    );
end
$$;

revoke execute on function cdc.apply_computed(text, text, jsonb, uuid, pg_lsn, pg_lsn, cdc.computed_batch) from public;
