-- Which column that is needed of a table has another name now, or is gone, as a loader has seen; null for none.
create or replace function cdc.find_gone(slot text, needed jsonb) returns text
language plpgsql stable parallel safe set search_path = pg_catalog, pg_temp as $$
begin
    return (
        select string_agg(
            format('%s of %s %s', own.name, need.key, coalesce('is called ' || called.name || ' now', 'is gone')),
            '; ' order by need.key, own.name
        )
        from jsonb_each(needed) as need
        inner join cdc.logged_table as logged
            on logged.slot_name = slot and logged.table_schema || '.' || logged.table_name = need.key
        cross join jsonb_array_elements_text(need.value) as own (name)
        cross join lateral (
            select logged.names ->> (logged.column_numbers ->> own.name) as name
        ) as called
        where
            logged.names is not null and logged.column_numbers ? own.name
            and not exists (select from jsonb_each_text(logged.names) as present where present.value = own.name)
    );
end
$$;
