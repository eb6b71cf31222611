-- Start a model from its baseline.
create or replace function cdc.start_rebuild(plan cdc.model_plan, to_lsn pg_lsn) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    result cdc.outcome;
begin
    result := cdc.run_step(
        plan,
        case when plan.applied_lsn is null and plan.baseline_id is null and not plan.is_refresh_asked
            then 'begin' else 'rebuild' end,
        truncated => cdc.truncated_tables(plan.slot_name, plan.from_lsn, to_lsn)
    );
    if result.is_replaced then
        -- The rows of other slots are gone too: they start from their baselines.
        update cdc.model_watermark as other
        set declaration = null
        where other.model_name = plan.model_name and other.slot_name <> plan.slot_name;
    end if;
    -- What was written down before its baseline is in it: the seed has seen to that.
    delete from cdc.archived_delete as old
    where
        old.slot_name = plan.slot_name
        and old.model_name = plan.model_name
        and (old.commit_lsn >= plan.from_lsn or plan.baseline_id is null);
end
$$;
