-- Whether the log has changes of a slot at applied_lsn or after it that were committed before lsn.
create or replace function cdc.lacks_changes(slot text, applied_lsn pg_lsn, lsn pg_lsn) returns boolean
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
    return applied_lsn < lsn and exists (
        select from cdc.change_log as log
        where log.slot_name = slot and log.commit_lsn >= applied_lsn and log.commit_lsn < lsn
    );
end
$$;
