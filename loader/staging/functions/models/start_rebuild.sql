-- Start a model from its baseline.
create or replace function cdc.start_rebuild(plan cdc.model_plan, to_lsn pg_lsn) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    perform cdc.run_step(plan, 'rebuild', truncated => cdc.truncated_tables(plan.slot_name, plan.from_lsn, to_lsn));
    -- What was written down before its baseline is in it: the seed has seen to that.
    delete from cdc.ignored_delete as old
    where
        old.slot_name = plan.slot_name
        and old.relation = plan.relation
        and old.commit_lsn >= plan.from_lsn;
end
$$;
