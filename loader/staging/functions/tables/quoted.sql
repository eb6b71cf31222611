-- Names as SQL wants them, in a list.
create or replace function cdc.quoted(names text[]) returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select string_agg(quote_ident(name), ', ' order by place)
    from unnest(names) with ordinality as names (name, place)
$$;
