-- dbt calls this in the transaction that makes the routine. `needs` is as in installed_model, `functions` as in
-- installed_function.
create or replace function cdc.install_model(
    slot text,
    model text,
    name text,
    declaration jsonb,
    routine text,
    needs jsonb,
    is_refresh boolean,
    engine text,
    functions text[]
) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    refused record;
begin
    -- Before anything is written: another thread of dbt that installs a model changes the same rows.
    perform pg_advisory_xact_lock(cdc.lock_key('reader', cdc.reader_name(slot)));
    perform cdc.note_functions(model, functions);
    insert into cdc.installed_model as stored (
        slot_name, model_name, declared_name, declaration, routine, needs, is_refresh_asked, engine
    )
    values (
        slot, model, install_model.name, install_model.declaration, install_model.routine, install_model.needs, is_refresh, install_model.engine
    )
    on conflict on constraint installed_model_pkey do update
    set
        former = cdc.former_query(stored, excluded.declaration),
        declared_name = excluded.declared_name,
        declaration = excluded.declaration,
        routine = excluded.routine,
        needs = excluded.needs,
        is_refresh_asked = stored.is_refresh_asked or excluded.is_refresh_asked,
        engine = excluded.engine,
        installed_at = case
            when stored.declaration = excluded.declaration then stored.installed_at else now()
        end,
        error = null,
        remedy = null,
        is_locked = false,
        failures = 0,
        retry_at = null;

    perform cdc.place_models(slot, cdc.make_reader(slot));

    -- What is refused is not asked for: else a model that follows would wait for a rebuild that cannot be.
    if is_refresh then
        select plans.reason, plans.remedy into refused
        from cdc.explain_models(slot) as plans
        where plans.model_name = install_model.model and plans.state = 'failed';
        if found then
            raise exception '%: %', install_model.name, refused.reason using hint = refused.remedy;
        end if;
    end if;
end
$$;

revoke execute on function cdc.install_model(
    text, text, text, jsonb, text, jsonb, boolean, text, text[]
) from public;
