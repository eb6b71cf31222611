-- SQL: the list of a select, each expression under its name.
create or replace function cdc.write_entries(entries jsonb) returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select e'\n' || string_agg(format('    %s as %I', value ->> 'expression', value ->> 'name'), e',\n' order by ordinal) || e'\n'
    from jsonb_array_elements(entries) with ordinality as one (value, ordinal)
$$;
