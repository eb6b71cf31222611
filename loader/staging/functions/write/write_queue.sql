-- SQL: the rows of a query with these columns, as objects of texts: no cast is called that a user has made, here or in
-- write_queued.
create or replace function cdc.write_queue(columns jsonb, query text) returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select format(
        'select array_agg(jsonb_object(%L, array[%s]::text[])) into before from (%s) as own;',
        array(select value ->> 'name' from jsonb_array_elements(columns) with ordinality as one (value, ordinal) order by ordinal),
        cdc.write_names(columns, 'case num_nulls(own.%1$I) when 0 then format(''%%s'', own.%1$I) end'),
        query
    )
$$;
