-- Whether values of a type are texts.
create or replace function cdc.is_text(type text) returns boolean
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select type in ('text', 'character varying', 'bpchar', 'name', '"char"')
$$;
