-- Delete all rows of a table whose columns change: readers with an older snapshot still see them, which they would not
-- after TRUNCATE.
create or replace function cdc.empty_table(target regclass) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    execute format('lock table %s in access exclusive mode', target);
    execute format('delete from %s', target);
end
$$;
