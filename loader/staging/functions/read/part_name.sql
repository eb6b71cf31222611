-- The column of a model's table for what one of its sources has added to another column, whose name may be too long.
create or replace function cdc.part_name(source_no bigint, name text) returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select format('waltally_%s_%s', source_no, case when octet_length(name) > 50 then md5(name) else name end)
$$;
