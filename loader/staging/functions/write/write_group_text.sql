-- SQL: what names a fact's group, of a row `changed` with its keys.
create or replace function cdc.write_group_text(compiled jsonb) returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select format('row(%s)::text', cdc.write_names(compiled -> 'keys', 'changed.%I'))
$$;
