-- One step of a model's routine.
create or replace function cdc.run_step(
    plan cdc.model_plan, step text, changes cdc.change[] default null, truncated text[] default null
) returns cdc.outcome
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    result cdc.outcome;
    target record := cdc.find_installed(
        plan.routine, '(text, text, cdc.change[], integer[], integer[], text[])', 'cdc.outcome'
    );
begin
    execute format(
        'select * from %s(cdc.unless_replaced($1, $7, $8), $2, $3, $4, $5, $6)', target.name
    )
    into result
    using
        step, plan.slot_name, changes, plan.table_nos, plan.places, truncated, target.oid, target.version;
    return result;
end
$$;
