-- SQL: of a model on the right of a LEFT JOIN the columns by which it is found: its own (item 0), its neighbour's (2).
create or replace function cdc.link_columns(compiled jsonb, number integer, item integer, form text default '%I')
returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select string_agg(format(form, link.value ->> item), ', ' order by ordinal)
    from jsonb_array_elements(compiled #> array['joins', 'nullable', number::text]) with ordinality as link (value, ordinal)
$$;
