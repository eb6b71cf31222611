-- Fill one model over models that is to be filled, and return whether one was tried. A patient caller, who holds
-- nothing yet, locks what is below it in a last step alone, to add what was queued till then; else all of it is locked
-- until it is full, and so is what lacks an index. What is in between and passes no changes on asks for it again.
create or replace function cdc.fill_dependent(slot text, is_patient boolean) returns boolean
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    plan record;
    is_locked boolean;
begin
    for plan in
        select plans.* from cdc.plan_dependents(slot) as plans
        where plans.step = 'fill' and coalesce(plans.retry_at <= clock_timestamp(), true)
        order by cardinality(plans.inputs), plans.relation
    loop
        begin
            is_locked := not is_patient or cdc.lacks_index(plan.relation) or exists (
                -- Nothing is read for it, and a reader of it relies on the order.
                select from cdc.dependent_model as own where own.relation = plan.relation and own.declaration ->> 'kind' = 'changes'
            );
            if not cdc.begin_fill(plan.relation, plan.inputs, is_locked, is_patient) then
                raise exception 'another session builds an input' using errcode = 'WL001';
            end if;
            if is_patient and is_locked and cdc.lacks_index(plan.relation) then
                perform cdc.step_dependent(plan.routine, 'index');
                if not cdc.lacks_index(plan.relation) then
                    return true;
                end if;
            end if;
            loop
                -- What is asked for from now on is asked for again. Of another query, the plan has neither routine nor inputs.
                delete from cdc.to_fill as asked using cdc.dependent_model as own
                where asked.relation = plan.relation and own.relation = plan.relation and own.routine = plan.routine;
                if not found then
                    raise exception 'another session has filled it, or dbt has installed it, meanwhile' using errcode = 'WL001';
                end if;
                perform set_config('waltally.position', plan.applied_lsn::text, true);
                perform cdc.step_dependent(plan.routine, 'fill');
                exit when is_locked;
                if not cdc.lock_to_fill(plan.relation, plan.inputs, interval '10 s') then
                    raise exception 'another session builds an input' using errcode = 'WL001';
                end if;
                is_locked := true;
                exit when not cdc.is_to_be_filled(plan.relation);
            end loop;
            perform cdc.catch_up(plan.relation, plan.routine);
            perform cdc.ask_to_fill_dependents(plan.relation, format('%s was filled', plan.relation));
            update cdc.dependent_model as own
            set error = null, failures = 0, retry_at = null, audited_at = null, major_version = cdc.major_version()
            where own.relation = plan.relation;
            perform cdc.notify_applied(slot, plan.applied_lsn, array[plan.relation]);
        exception
            when sqlstate 'WL001' then
                continue;
            when lock_not_available or deadlock_detected then
                perform cdc.ask_to_fill(plan.relation, format('it could not be locked: %s', sqlerrm));
                perform cdc.note_dependent_failure(plan.relation, null);
            when others then
                perform cdc.note_dependent_failure(plan.relation, sqlerrm, sqlstate);
        end;
        return true;
    end loop;
    return false;
end
$$;
