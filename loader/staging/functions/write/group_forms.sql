-- SQL: expressions by which an index finds the rows of a group, null among its values included, of the columns that an
-- item of compile_group's "group" calls `side`. Equal values have equal ones; others may.
create or replace function cdc.group_forms(compiled jsonb, side text, prefix text default '') returns text[]
language sql stable set search_path = pg_catalog, pg_temp as $$
    select array(
        select form.sql
        from jsonb_array_elements(compiled -> 'group') with ordinality as own (value, ordinal)
        cross join lateral (select prefix || quote_ident(own.value ->> side) as sql, own.value ->> 'type' as type) as named
        cross join lateral unnest(cdc.null_safe(cdc.bounded(named.sql, named.type), named.type, false)) as form (sql)
        order by own.ordinal
    )
$$;
