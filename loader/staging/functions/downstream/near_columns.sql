-- SQL: the columns by which a LEFT JOIN's left side finds a model that is on the right in some places.
create or replace function cdc.near_columns(links jsonb, numbers integer[], prefix text) returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select string_agg(distinct format('%s%I', prefix, link.value ->> 2), ', ')
    from unnest(numbers) as n
    cross join jsonb_array_elements(links -> n::text) as link (value)
$$;
