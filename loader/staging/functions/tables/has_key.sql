-- Whether a table's constraint of this name is on these columns, in this order.
create or replace function cdc.has_key(target regclass, key_name text, key text[]) returns boolean
language sql stable set search_path = pg_catalog, pg_temp as $$
    select exists (
        select from pg_constraint as c
        where
            c.conrelid = target
            and c.conname = key_name
            and key = array(
                select a.attname::text
                from unnest(c.conkey) with ordinality as k (attnum, place)
                inner join pg_attribute as a on a.attrelid = c.conrelid and a.attnum = k.attnum
                order by k.place
            )
    )
$$;
