-- dbt calls this in the transaction that makes the functions of a roll-up.
create or replace function cdc.install_roll_up(
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

revoke execute on function cdc.install_roll_up(text, text, text, jsonb, text, text[], integer, boolean) from public;
