-- install_query calls this in the transaction of dbt that makes the routine: register the model, and make its slot's
-- reader. `needs` is as in installed_model, `functions` as in installed_function. `target_schema` is that of the dbt
-- target. `keeps_rows`: what the former declaration has counted is what this one would.
create or replace function cdc.install_model(
    slot text, model_schema text, model_table text, name text, declaration jsonb, reading jsonb, routine text,
    needs jsonb, is_refresh boolean, keeps_rows boolean, engine text, functions text[], project text, target_schema text
) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    model constant text := model_schema || '.' || model_table;
    other_slot constant text := cdc.other_slot(slot, model, name);
    refused record;
    moved_at timestamptz;
begin
    if other_slot is not null then
        raise exception '%: it is built from the slot %; a second slot would mix its counts with these', name, other_slot
            using errcode = 'WL003', hint = cdc.explain_move(other_slot, slot, model, name);
    end if;
    -- Before anything is written: another thread of dbt that installs a model changes the same rows.
    perform pg_advisory_xact_lock(cdc.lock_key('reader', cdc.reader_name(slot)));
    perform cdc.note_functions(model, functions);
    if keeps_rows then
        perform cdc.keep_rows(slot, model, name, install_model.declaration);
    end if;
    moved_at := cdc.move_model(slot, model, name, project, target_schema);
    insert into cdc.installed_model as stored (
        slot_name, relation, model_name, relation_schema, relation_name, project_name, target_schema, declaration,
        needed, reading, routine, needs, is_refresh_asked, engine, added_at
    )
    values (
        slot, model, install_model.name, model_schema, model_table, project, install_model.target_schema,
        install_model.declaration, cdc.needed_columns(install_model.declaration), install_model.reading,
        install_model.routine, install_model.needs, is_refresh, install_model.engine,
        coalesce(moved_at, clock_timestamp())
    )
    on conflict on constraint installed_model_pkey do update
    set
        former = cdc.former_query(stored, excluded.declaration),
        model_name = excluded.model_name,
        project_name = excluded.project_name,
        target_schema = excluded.target_schema,
        added_at = least(stored.added_at, excluded.added_at),
        declaration = excluded.declaration,
        needed = excluded.needed,
        reading = case when stored.declaration = excluded.declaration then stored.reading else excluded.reading end,
        routine = excluded.routine,
        needs = excluded.needs,
        is_refresh_asked = stored.is_refresh_asked or excluded.is_refresh_asked,
        engine = excluded.engine,
        installed_at = case
            when stored.declaration = excluded.declaration then stored.installed_at else clock_timestamp()
        end,
        error = null,
        remedy = null,
        is_locked = false,
        is_unseen = false,
        failures = 0,
        retry_at = null;

    perform cdc.note_ordinals(slot, cdc.make_reader(slot));

    -- What is refused is not asked for: else a model that follows would wait for a rebuild that cannot be.
    if is_refresh then
        select plans.reason, plans.remedy into refused
        from cdc.explain_models(slot) as plans
        where plans.relation = model and plans.state = 'failed';
        if found then
            raise exception '%: %', install_model.name, refused.reason using hint = refused.remedy;
        end if;
    end if;
end
$$;

revoke execute on function cdc.install_model(
    text, text, text, text, jsonb, jsonb, text, jsonb, boolean, boolean, text, text[], text, text
) from public;
