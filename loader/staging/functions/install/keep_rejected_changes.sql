-- Make rejected_changes where a model is installed before dbt has made it: as dbt does, and under the lock of the
-- materialization kept_table. Two threads of dbt may come here at once.
create or replace function cdc.keep_rejected_changes(listed text) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    names constant text[] := parse_ident(listed);
begin
    perform cdc.require_table(listed);
    if to_regclass(listed) is not null then
        return;
    end if;
    -- dbt installs several models at once, and takes this lock where it makes the table.
    perform pg_advisory_xact_lock(cdc.lock_key('dbt relation', array_to_string(names, '.')));
    -- The catalog itself: this session may still remember that there was none.
    if exists (
        select from pg_class as c where c.relnamespace = to_regnamespace(quote_ident(names[1])) and c.relname = names[2]
    ) then
        return;
    end if;
    execute format(
        'create table %s (
            model_name text not null, slot_name text not null, commit_lsn pg_lsn not null, ordinal bigint not null,
            xid bigint not null, committed_at timestamptz not null, source_table text, action text,
            reason text not null, payload text not null,
            constraint uix_rejected_changes_position unique (model_name, slot_name, commit_lsn, ordinal)
        )',
        listed
    );
    execute format('alter table %s replica identity full', listed);
end
$$;
