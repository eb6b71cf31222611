-- Whether a model has a table, by its name as models have it.
create or replace function cdc.is_table(model text) returns boolean
language sql stable set search_path = pg_catalog, pg_temp as $$
    select exists (
        select from pg_class as c
        inner join pg_namespace as n on n.oid = c.relnamespace
        where n.nspname || '.' || c.relname = model
    )
$$;
