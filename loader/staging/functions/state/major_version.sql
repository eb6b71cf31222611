-- The server's major version: with another one expressions may give something else.
create or replace function cdc.major_version() returns integer
language sql stable set search_path = pg_catalog, pg_temp as $$
    select current_setting('server_version_num')::integer / 10000
$$;
