-- The number of the input for which a stub stands, by its oid.
create or replace function cdc.stub_number(relation text) returns integer
language sql stable strict set search_path = pg_catalog, pg_temp as $$
    select substring(c.relname from '^waltally_source_([0-9]+)$')::integer from pg_class as c where c.oid = relation::oid
$$;
