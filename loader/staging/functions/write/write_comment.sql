-- SQL: a query as its author wrote it, for whoever reads the function that evaluates it.
create or replace function cdc.write_comment(text text) returns text
language sql immutable strict set search_path = pg_catalog, pg_temp as $$
    select '-- ' || regexp_replace(btrim(text, e' \r\n'), '\r\n?|\n', e'\n-- ', 'g')
$$;
