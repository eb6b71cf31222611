-- SQL: `form` for each of these columns in their order, with its name (%1$I), its type (%2$s), that with its length
-- (%3$s), its collation (%4$s) and its type's = (%5$s); empty without any.
create or replace function cdc.write_names(columns jsonb, form text, separator text default ', ') returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select coalesce(cdc.join_lines(array_agg(format(
        form, value ->> 'name', value ->> 'type', coalesce(value ->> 'exact', value ->> 'type'), coalesce(' collate ' || (value ->> 'collation'), ''),
        cdc.equals(value ->> 'type')
    ) order by ordinal), separator), '')
    from jsonb_array_elements(columns) with ordinality as one (value, ordinal)
$$;
