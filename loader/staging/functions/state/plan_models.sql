-- The plan of each model of a slot, as the functions that carry it out take it.
create or replace function cdc.plan_models(slot text) returns setof cdc.model_plan
language plpgsql stable security definer rows 10 set search_path = pg_catalog, pg_temp set jit = off as $$
begin
    return query
    -- Materialized: the planner would compute a column again wherever it is used.
    with planned as materialized (
        select * from cdc.planned_model as model
        where model.slot_name = slot
    )

    select
        planned.slot_name,
        planned.relation,
        planned.model_name,
        planned.step,
        planned.is_ready,
        planned.from_lsn,
        planned.position_lsn,
        planned.applied_lsn,
        planned.registered,
        planned.routine,
        planned.table_nos,
        planned.ordinals,
        planned.is_refresh_asked,
        planned.baseline_id,
        planned.snapshot_lsn,
        planned.error,
        planned.retry_at,
        planned.engine,
        planned.installed_version,
        planned.watermark_version,
        -- What is rejected and lost is known once the plan is carried out.
        null::pg_lsn,
        null::pg_lsn
    from planned;
end
$$;
