-- SQL: what all sources but the last one have added to something that is kept.
create or replace function cdc.add_parts(source_count integer, name text) returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select coalesce(string_agg(format('%I', cdc.part_name(number, name)), ' + ' order by number), '0')
    from generate_series(1, source_count - 1) as number
$$;
