-- Make rejected_changes where a model is installed before dbt has made it: as dbt does, and under the lock of the
-- materialization kept_table. Two threads of dbt may come here at once; to_regclass would then
-- still say what it said before the lock.
create or replace function cdc.keep_rejected_changes(listed text) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    if to_regclass(listed) is not null then
        return;
    end if;
    perform pg_advisory_xact_lock(cdc.lock_key('dbt relation', array_to_string(parse_ident(listed), '.')));
    execute format(
        'create table if not exists %s (
            fact text not null, slot_name text not null, commit_lsn pg_lsn not null, ordinal bigint not null,
            xid bigint not null, committed_at timestamptz not null, source_table text, action text,
            reason text not null, payload text not null,
            constraint uix_rejected_changes_position unique (fact, slot_name, commit_lsn, ordinal)
        )',
        listed
    );
    execute format('alter table %s replica identity full', listed);
end
$$;
