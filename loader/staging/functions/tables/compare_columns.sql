-- The columns of a table beside those of a pattern, which has what is declared.
create or replace function cdc.compare_columns(target regclass, pattern regclass)
returns table (name text, is_there boolean, is_declared boolean, is_same boolean, type text)
language sql stable set search_path = pg_catalog, pg_temp as $$
    select
        coalesce(new.attname, old.attname)::text,
        old.attname is not null,
        new.attname is not null,
        (old.atttypid, old.atttypmod) is not distinct from (new.atttypid, new.atttypmod),
        format_type(new.atttypid, new.atttypmod)
    from (
        select * from pg_attribute as a
        where a.attrelid = target and a.attnum > 0 and not a.attisdropped
    ) as old
    full join (
        select * from pg_attribute as a
        where a.attrelid = pattern and a.attnum > 0
    ) as new on new.attname = old.attname
$$;
