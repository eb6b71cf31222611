-- One step of a model's routine, and of those of the models above it.
create or replace function cdc.run_step(
    plan cdc.model_plan, step text, changes cdc.change[] default null, truncated text[] default null
) returns cdc.outcome
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    result cdc.outcome;
    target record := cdc.find_installed(
        plan.routine, '(text, text, cdc.change[], integer[], integer[], text[], boolean)', 'cdc.outcome'
    );
begin
    -- Before the routine: while it reads, nobody else makes the roll-ups of this model.
    if step = 'rebuild' then
        perform cdc.refill_above(plan.model_name);
        perform cdc.fill_above(plan.model_name, format('%s was built again', plan.model_name));
    end if;
    execute format(
        'select * from %s(cdc.unless_replaced($1, $8, $9), $2, $3, $4, $5, $6, $7)', target.name
    )
    into result
    using
        step, plan.slot_name, changes, plan.table_nos, plan.places, truncated, cdc.is_watched(plan.model_name),
        target.oid, target.version;
    perform cdc.hand_on(plan.slot_name, plan.model_name, result.moved, result.is_reset);
    if result.is_reset then
        perform cdc.fill_above(plan.model_name, format('a table of %s was truncated', plan.model_name));
    else
        perform cdc.tell(plan.model_name, result.before, result.after);
    end if;
    return result;
end
$$;
