-- dbt calls this in the transaction that makes the functions of a roll-up. `is_new`: what it held is gone.
create or replace function cdc.install_roll_up(
    model text, fact text, project text, declaration jsonb, routine text, inputs text[], made_of cdc.roll_up_input[],
    functions text[], tables text[], columns text[], is_refresh boolean, is_new boolean
) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform cdc.note_objects(model, functions, tables, columns);
    -- The same roll-up in another schema, which its project has left: nobody keeps that any more.
    delete from cdc.roll_up as former
    where
        former.project = install_roll_up.project
        and former.fact_name = install_roll_up.fact
        and former.inputs = install_roll_up.inputs
        and former.model_name <> model;
    insert into cdc.roll_up as stored (model_name, fact_name, project, declaration, routine, inputs)
    values (
        model, fact, install_roll_up.project, install_roll_up.declaration, install_roll_up.routine,
        install_roll_up.inputs
    )
    on conflict on constraint roll_up_pkey do update
    set
        fact_name = excluded.fact_name,
        project = excluded.project,
        declaration = excluded.declaration,
        routine = excluded.routine,
        inputs = excluded.inputs,
        is_due = stored.is_due or is_refresh or is_new or stored.declaration <> excluded.declaration,
        error = null,
        failures = 0,
        retry_at = null;
    delete from cdc.roll_up_input as input where input.model_name = model;
    insert into cdc.roll_up_input (model_name, input_name, declaration, routine)
    select model, input.input_name, input.declaration, input.routine
    from unnest(made_of) as input;
end
$$;

revoke execute on function cdc.install_roll_up(
    text, text, text, jsonb, text, text[], cdc.roll_up_input[], text[], text[], text[], boolean, boolean
) from public;
