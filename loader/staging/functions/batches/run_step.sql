-- One step of a model's routine; then its dependents get what it has changed.
create or replace function cdc.run_step(
    plan cdc.model_plan, step text, changes cdc.change[] default null, truncated text[] default null
) returns cdc.outcome
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    result cdc.outcome;
    target record := cdc.find_installed(
        plan.routine, '(text, text, cdc.change[], integer[], integer[], text[], anyarray)', array['pg_lsn', 'boolean', 'pg_lsn', 'anyarray', 'anyarray']
    );
begin
    -- Before the routine: while it reads, nobody else fills what reads this model.
    if step = 'rebuild' then
        perform cdc.ask_to_fill_dependents(plan.relation, format('%s was built again', plan.relation));
    end if;
    -- In one statement: no variable here holds rows of every model.
    execute format(
        'select made.rejected_lsn, made.is_reset, made.lost_lsn from %s(cdc.unless_replaced($1, $8, $9), $2, $3, $4, $5, $6, %s) as made '
        'cross join lateral cdc.update_dependents($7, case when made.is_reset is not true then made.before end, made.after)',
        target.name, cdc.no_changed_rows(plan.relation, target.oid)
    )
    into result
    using step, plan.slot_name, changes, plan.table_nos, plan.ordinals, truncated, plan.relation, target.oid, target.version;
    perform cdc.require_seen(plan, result.lost_lsn);
    if result.is_reset then
        perform cdc.ask_to_fill_dependents(plan.relation, format('a table of %s was truncated', plan.relation));
    end if;
    return result;
end
$$;
