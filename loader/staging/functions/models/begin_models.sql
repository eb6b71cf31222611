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
        -- Before the lock dbt may have installed it again, or another one and with it a reader that gives other places
        -- (so this comes after the batch was read), or somebody else applied the same changes.
        perform
        from cdc.installed_model as installed
        left join cdc.model_watermark as mark
            on mark.slot_name = installed.slot_name and mark.model_name = installed.model_name
        where
            installed.slot_name = plan.slot_name
            and installed.model_name = plan.model_name
            and installed.xmin = plan.installed_version
            and mark.xmin is not distinct from plan.watermark_version;
        if not found then
            raise exception 'another session has changed it meanwhile' using errcode = 'WL001';
        end if;
    end loop;
    -- What is above one that is built again is filled after that, and others may add to it until then.
    perform cdc.lock_above(array(select planned.model_name from unnest(plans) as planned where planned.step = 'add'));
end
$$;
