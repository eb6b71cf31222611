-- From which position on the log holds all columns that are needed; null where something is not followed yet.
create or replace function cdc.held_since(slot text, needed jsonb) returns pg_lsn
language plpgsql stable parallel safe set search_path = pg_catalog, pg_temp as $$
begin
    return (
        select case when bool_and(held.since is not null) then max(held.since) end
        from jsonb_each(needed) as need
        left join cdc.logged_table as logged
            on logged.slot_name = slot and logged.table_schema || '.' || logged.table_name = need.key
        cross join lateral (
            select coalesce(logged.held_since ->> own.name, logged.held_since ->> '*')::pg_lsn as since
            from jsonb_array_elements_text(need.value) as own (name)
            union all
            -- Only the number of its changes counts: any column tells since when they are logged.
            select min(any_column.value::pg_lsn)
            from jsonb_each_text(logged.held_since) as any_column
            having need.value = '[]'
        ) as held
    );
end
$$;
