-- SQL: columns of a model's row.
create or replace function cdc.model_columns(input jsonb, row_name text) returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select coalesce(nullif(cdc.write_names(input -> 'columns', format('%s.%%I', row_name)), ''), '1 as waltally_nothing')
$$;
