-- SQL: the `=` of a type by its name. That of an extension's type is looked for in its schema.
create or replace function cdc.equals(type text) returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select coalesce('operator(' || substring(type from '^(.+)\.(?:"[^"]+"|[^".[]+)$') || '.=)', '=')
$$;
