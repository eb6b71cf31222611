-- The changes that a model cannot take as such, each with its problem. `needs` are the columns by source.
create or replace function cdc.reject(changes cdc.change[], needs jsonb, table_nos integer[], ordinals integer[])
returns cdc.change[]
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
begin
    return array(
        select row(
            change.table_no, change.action, change.commit_lsn, change.ordinal, change.is_cancelled,
            coalesce(change.problem, cdc.explain_lack(change, needs, table_nos, ordinals)),
            change.old_values, change.new_values, change.change_count, change.last_lsn, change.missing
        )::cdc.change
        from unnest(changes) as change
        where
            (change.table_no = any (table_nos) or change.table_no is null)
            and (change.problem is not null or change.missing is not null and cdc.lacks(change, table_nos, ordinals))
    );
end
$$;
