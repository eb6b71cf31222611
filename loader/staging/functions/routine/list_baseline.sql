-- A step of a rebuild: list again what a model could not take, beginning with the rows that its seed could not count,
-- one line for each source and reason. `listed` is rejected_changes as SQL writes it.
create or replace function cdc.list_baseline(listed text, model_key text, slot text, model_name text) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    execute format('delete from %s as old where old.model_name = $1 and old.slot_name = $2', listed) using model_key, slot;
    execute format(
        'insert into %s (model_name, slot_name, commit_lsn, ordinal, xid, committed_at, source_table, action, reason, payload) '
        'select $1, slot_name, baseline.snapshot_lsn, -row_number() over (order by rejected.part, rejected.reason), 0, '
        'baseline.counted_at, rejected.part, ''baseline'', rejected.reason, '
        'jsonb_build_object(''row_count'', rejected.row_count, ''example'', rejected.example)::text '
        'from cdc.baseline_rejection as rejected inner join cdc.baseline as baseline using (slot_name, model_name) '
        'where slot_name = $2 and model_name = $3',
        listed
    ) using model_key, slot, model_name;
end
$$;
