-- List what a model could not take. `listed` is rejected_changes as SQL writes it, `tables` are the sources in the
-- order of `table_nos`.
create or replace function cdc.list_rejected(
    listed text, model text, slot text, tables text[], table_nos integer[], rejected cdc.change[]
) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    execute format(
        'insert into %s (model_name, slot_name, commit_lsn, ordinal, xid, committed_at, source_table, action, reason, payload) '
        -- Of an update only one row may be bad.
        'select $1, log.slot_name, log.commit_lsn, log.ordinal, log.xid, log.committed_at, '
        '($3)[array_position($4, change.table_no)], coalesce(log.action::text, change.action), change.problem, log.payload '
        'from unnest($5) as change inner join cdc.change_log as log '
        'on log.slot_name = $2 and log.commit_lsn = change.commit_lsn and log.ordinal = change.ordinal',
        listed
    ) using model, slot, tables, table_nos, rejected;
end
$$;
