-- SQL: the rows of a query with these columns, as objects of texts: no cast is called that a user has made, here or in
-- write_queued.
create or replace function cdc.write_queue(columns jsonb, query text) returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select cdc.fill(
$template$select array_agg(jsonb_object({names}, array[
    {texts}
]::text[])) into before
from (
    {query}
) as own;$template$,
        jsonb_build_object(
            'names', quote_literal((select array_agg(value ->> 'name' order by ordinal) from jsonb_array_elements(columns) with ordinality as one (value, ordinal))::text),
            'texts', cdc.write_names(columns, 'case num_nulls(own.%1$I) when 0 then format(''%%s'', own.%1$I) end'),
            'query', query
        )
    )
$$;
