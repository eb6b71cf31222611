-- The columns of a table, each with all that tells it from another one of its name; `roomy_form` without a length, as
-- make_room leaves it.
create or replace function cdc.column_forms(target regclass)
returns table (name text, is_expression boolean, form text, roomy_form text)
language sql stable set search_path = pg_catalog, pg_temp as $$
    select
        a.attname::text,
        a.attgenerated <> '',
        concat_ws(' ', format_type(a.atttypid, a.atttypmod), own.rest),
        concat_ws(' ', format_type(a.atttypid, -1), own.rest)
    from pg_attribute as a
    left join pg_attrdef as d on d.adrelid = a.attrelid and d.adnum = a.attnum
    cross join lateral (
        select concat_ws(' ', a.attcollation, a.attnotnull, a.attgenerated, pg_get_expr(d.adbin, d.adrelid)) as rest
    ) as own
    where a.attrelid = target and a.attnum > 0 and not a.attisdropped
$$;
