-- Fill one roll-up that is due, and return whether one was tried: one of which somebody has locked an input is passed
-- over. What it fails with is written down.
create or replace function cdc.fill_roll_up(slot text) returns boolean
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    plan record;
    target record;
    code text;
    message text;
begin
    for plan in
        select plans.*
        from cdc.plan_roll_ups(slot) as plans
        where plans.step = 'fill' and (plans.retry_at is null or plans.retry_at <= clock_timestamp())
        order by cardinality(plans.inputs), plans.model_name
    loop
        begin
            -- Its inputs are locked until it is full. A batch passes a model over that somebody has locked like this.
            -- This one does not wait either: it may hold what the other waits for.
            if exists (
                select from unnest(plan.inputs || plan.model_name) as input (name)
                where not pg_try_advisory_xact_lock(cdc.lock_key('model', input.name))
            ) then
                raise exception 'another session builds an input' using errcode = 'WL001';
            end if;
            -- Before the locks dbt may have made it of other inputs, whose changes it would miss.
            if not exists (
                select from cdc.roll_up as stored
                where stored.model_name = plan.model_name and stored.inputs = plan.inputs and stored.is_due
            ) then
                raise exception 'another session has changed it meanwhile' using errcode = 'WL001';
            end if;
            target := cdc.find_installed(plan.routine, '(text)', 'cdc.outcome');
            execute format('select * from %s(cdc.unless_replaced($1, $2, $3))', target.name)
            using slot, target.oid, target.version;
            perform cdc.refill_above(plan.model_name);
            update cdc.roll_up as stored
            set is_due = false, error = null, failures = 0, retry_at = null
            where stored.model_name = plan.model_name;
            perform pg_notify('waltally', json_build_object('slot', slot, 'position', plan.applied_lsn)::text);
        exception
            when others then
                get stacked diagnostics code = returned_sqlstate, message = message_text;
                continue when code = 'WL001';
                perform cdc.suspend_roll_up(
                    plan.model_name, case when code = '55P03' then 'it could not be locked: ' else '' end || message
                );
        end;
        return true;
    end loop;
    return false;
end
$$;
