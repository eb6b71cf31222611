-- SQL: whether an error was of a value that did not fit a model's table, which now has room for it; null where every
-- value fits.
create or replace function cdc.write_room(compiled jsonb, relation text, state text default 'sqlstate') returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select case when cdc.key_hash(compiled) is not null or exists (
        select from cdc.list_columns(compiled) as one where one.exact is not null
    ) then format('cdc.make_room(%L, %L, %s)', relation, cdc.key_hash(compiled), state) end
$$;
