-- Whether values of a type have a collation: where they are stored it is "C", and a query sees the default one of the
-- database. For an array, ask of its element.
create or replace function cdc.has_collation(type text) returns boolean
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select type in ('text', 'varchar', 'character varying', 'bpchar')
$$;
