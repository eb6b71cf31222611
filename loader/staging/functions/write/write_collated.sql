-- SQL: these columns, each with its collation where that is not its type's own: what a function gives has lost it. With
-- `is_named` under their names.
create or replace function cdc.write_collated(compiled jsonb, columns jsonb, is_named boolean default true) returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select coalesce(cdc.join_lines(array_agg(
        quote_ident(name)
        || coalesce(' collate ' || (compiled #>> array['collations', name]) || case when is_named then ' as ' || quote_ident(name) else '' end, '')
        order by ordinal
    )), '')
    from jsonb_array_elements(columns) with ordinality as one (value, ordinal)
    cross join lateral (select value ->> 'name' as name) as own
$$;
