-- Lock models that are to be brought to a position, and see that their plans still hold. The error WL001 means
-- that somebody else changes one of them at this moment: the next apply takes it.
create or replace function cdc.begin_models(plans cdc.model_plan[]) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    plan cdc.model_plan;
begin
    foreach plan in array plans loop
        if not pg_try_advisory_xact_lock(cdc.lock_key('model', plan.model_name)) then
            raise exception 'another session builds it' using errcode = 'WL001';
        end if;
    end loop;
    -- Before the locks dbt may have installed one again, or somebody else applied the same changes.
    if exists (
        select
        from unnest(plans) as planned
        left join cdc.installed_model as installed
            on installed.slot_name = planned.slot_name and installed.model_name = planned.model_name
        left join cdc.model_watermark as mark
            on mark.slot_name = planned.slot_name and mark.model_name = planned.model_name
        where
            (
                installed.declaration, installed.routine, installed.table_nos, installed.places, installed.engine,
                installed.is_refresh_asked, mark.applied_lsn
            ) is distinct from (
                planned.declaration, planned.routine, planned.table_nos, planned.places, planned.engine,
                planned.is_refresh_asked, planned.applied_lsn
            )
            or planned.step = 'add'
            and (mark.baseline_id, mark.declaration) is distinct from (planned.baseline_id, planned.declaration)
    ) then
        raise exception 'another session has changed it meanwhile' using errcode = 'WL001';
    end if;
end
$$;
