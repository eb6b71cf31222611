-- Fill one model over models that is to be filled, and return whether one was tried. All that is below it is locked
-- until it is full: a model in between that changed meanwhile would be left out, and be filled after it, and it again
-- after that.
create or replace function cdc.fill_downstream(slot text, is_patient boolean) returns boolean
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    plan record;
begin
    for plan in
        select plans.* from cdc.plan_downstream(slot) as plans
        where plans.step = 'fill' and coalesce(plans.retry_at <= clock_timestamp(), true)
        order by cardinality(plans.inputs), plans.model_name
    loop
        begin
            if not cdc.lock_to_fill(plan.model_name, plan.inputs, is_patient) then
                raise exception 'another session builds an input' using errcode = 'WL001';
            end if;
            -- What is asked for from now on is asked for again. Of another query, the plan has neither routine nor inputs.
            delete from cdc.to_fill as asked using cdc.downstream_model as own
            where asked.model_name = plan.model_name and own.model_name = plan.model_name and own.routine = plan.routine;
            if not found then
                raise exception 'another session has filled it, or dbt has installed it, meanwhile' using errcode = 'WL001';
            end if;
            perform set_config('waltally.position', plan.applied_lsn::text, true);
            perform cdc.step_downstream(plan.routine, 'fill');
            perform cdc.fill_above(plan.model_name, format('%s was filled', plan.model_name));
            update cdc.downstream_model as own
            set error = null, failures = 0, retry_at = null, audited_at = null, major_version = cdc.major_version()
            where own.model_name = plan.model_name;
            perform cdc.notify_applied(slot, plan.applied_lsn, array[plan.model_name]);
        exception
            when sqlstate 'WL001' then
                continue;
            when lock_not_available or deadlock_detected then
                perform cdc.ask_to_fill(plan.model_name, format('it could not be locked: %s', sqlerrm));
                perform cdc.note_downstream_failure(plan.model_name, null);
            when others then
                perform cdc.note_downstream_failure(plan.model_name, sqlerrm, sqlstate);
        end;
        return true;
    end loop;
    return false;
end
$$;
