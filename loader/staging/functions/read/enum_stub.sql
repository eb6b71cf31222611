-- The type that stands for an enum with these labels while PostgreSQL reads a query.
create or replace function cdc.enum_stub(labels jsonb) returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select 'pg_temp.waltally_enum_' || md5(labels::text)
$$;
