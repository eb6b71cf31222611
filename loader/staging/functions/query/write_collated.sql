-- SQL: these columns, each with its collation where that is not its type's own: what a function gives has lost it.
-- `form` has the column as %1$s and its name as %2$I.
create or replace function cdc.write_collated(compiled jsonb, columns jsonb, form text) returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select coalesce(string_agg(
        format(form, quote_ident(value ->> 'name') || coalesce(' collate ' || (compiled #>> array['collations', value ->> 'name']), ''), value ->> 'name'),
        ', ' order by place
    ), '')
    from jsonb_array_elements(columns) with ordinality as one (value, place)
$$;
