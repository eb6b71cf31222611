-- Raise the error WL001 where a plan holds no more: dbt may have installed the model again meanwhile, or another one
-- and with it a reader that gives other ordinals, or somebody else applied the same changes.
create or replace function cdc.require_plan(plan cdc.model_plan) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    perform
    from cdc.installed_model as installed
    left join cdc.model_watermark as mark
        on mark.slot_name = installed.slot_name and mark.relation = installed.relation
    where
        installed.slot_name = plan.slot_name
        and installed.relation = plan.relation
        and installed.xmin = plan.installed_version
        and mark.xmin is not distinct from plan.watermark_version;
    if not found then
        raise exception 'another session has changed it meanwhile' using errcode = 'WL001';
    end if;
end
$$;
