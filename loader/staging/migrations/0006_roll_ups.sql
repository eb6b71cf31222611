-- Roll-ups: their triggers keep them, and fill_roll_up fills what they cannot.
-- Runs with search_path set to the staging schema.

-- Whether the triggers of a roll-up have something to do.
create function is_kept(model text) returns boolean
language sql volatile security definer set search_path = pg_catalog, pg_temp as $$
    select exists (select from cdc.roll_up as rolled where rolled.model_name = model and not rolled.is_due)
$$;

-- Have the next apply fill a roll-up: a trigger failed with the error, or more moved than it may take on.
create function suspend_roll_up(model text, error text) returns void
language sql security definer set search_path = pg_catalog, pg_temp as $$
    update cdc.roll_up as rolled
    set
        is_due = true,
        error = suspend_roll_up.error,
        failures = case when suspend_roll_up.error is null then 0 else failures + 1 end,
        retry_at = case
            when suspend_roll_up.error is not null
                then clock_timestamp() + make_interval(secs => least(60, 2 ^ least(failures, 10)))
        end
    where rolled.model_name = model
$$;

-- dbt calls this in the transaction that makes the functions of a roll-up.
create function install_roll_up(
    model text, fact text, project text, declaration jsonb, routine text, inputs text[], trigger_count integer,
    is_refresh boolean
) returns void
language sql security definer set search_path = pg_catalog, pg_temp as $$
    insert into cdc.roll_up as stored (model_name, fact_name, project, declaration, routine, inputs, trigger_count)
    values (model, fact, project, declaration, routine, inputs, trigger_count)
    on conflict on constraint roll_up_pkey do update
    set
        fact_name = excluded.fact_name,
        project = excluded.project,
        declaration = excluded.declaration,
        routine = excluded.routine,
        inputs = excluded.inputs,
        trigger_count = excluded.trigger_count,
        is_due = stored.is_due or is_refresh or stored.declaration <> excluded.declaration,
        error = null,
        failures = 0,
        retry_at = null
$$;

-- Fill one roll-up that is due, and return whether one was tried. What it fails with is written down.
create function fill_roll_up(slot text) returns boolean
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    plan record;
    target record;
    code text;
    message text;
begin
    select plans.* into plan
    from cdc.plan_roll_ups(slot) as plans
    where plans.step = 'fill' and (plans.retry_at is null or plans.retry_at <= clock_timestamp())
    order by cardinality(plans.inputs), plans.model_name
    limit 1;
    if not found then
        return false;
    end if;
    begin
        -- Its inputs are locked until it is full. A batch passes a model over that somebody has locked like this, and
        -- would wait for the lock of a table. This one does not wait either: it may hold what the other waits for.
        if exists (
            select from unnest(plan.inputs) as input (name)
            where not pg_try_advisory_xact_lock(cdc.lock_key('model', input.name))
        ) then
            raise exception 'another session builds an input' using errcode = 'WL001';
        end if;
        target := cdc.find_installed(plan.routine, '(text)', 'void');
        execute format('select %s(cdc.unless_replaced($1, $2, $3))', target.name)
        using plan.model_name, target.oid, target.version;
        update cdc.roll_up as stored
        set is_due = false, error = null, failures = 0, retry_at = null
        where stored.model_name = plan.model_name;
        perform pg_notify('waltally', json_build_object('slot', slot, 'position', plan.applied_lsn)::text);
    exception
        when others then
            get stacked diagnostics code = returned_sqlstate, message = message_text;
            if code = 'WL001' then
                return false;
            end if;
            perform cdc.suspend_roll_up(
                plan.model_name, case when code = '55P03' then 'it could not be locked: ' else '' end || message
            );
    end;
    return true;
end
$$;

-- Whoever may call these acts on the facts with the rights of their owners.
revoke execute on function install_roll_up(text, text, text, jsonb, text, text[], integer, boolean) from public;
revoke execute on function is_kept(text) from public;
revoke execute on function suspend_roll_up(text, text) from public;
