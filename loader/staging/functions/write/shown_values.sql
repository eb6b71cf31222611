-- SQL: the columns of a row for to_jsonb. Of a type that is not PostgreSQL's own the text, by its output: to_jsonb
-- would call a cast that its owner has made.
create or replace function cdc.shown_values(columns jsonb, image text) returns text
language sql stable set search_path = pg_catalog, pg_temp as $$
    select string_agg(format(
        case when t.typnamespace = 'pg_catalog'::regnamespace then '%1$s.%2$I' else 'format(''%%s'', %1$s.%2$I) as %2$I' end,
        image, value ->> 'name'
    ), ', ' order by ordinal)
    from jsonb_array_elements(columns) with ordinality as one (value, ordinal)
    left join pg_type as t on t.oid = to_regtype(value ->> 'type')
$$;
