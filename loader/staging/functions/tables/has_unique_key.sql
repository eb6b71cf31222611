-- Whether a primary key, or a unique constraint that takes null for one value, is on these columns, in this order.
create or replace function cdc.has_unique_key(target regclass, key text[]) returns boolean
language sql stable set search_path = pg_catalog, pg_temp as $$
    select exists (
        select from pg_constraint as c
        inner join pg_index as x on x.indexrelid = c.conindid
        where
            c.conrelid = target
            and (c.contype = 'p' or c.contype = 'u' and x.indnullsnotdistinct)
            and key = array(
                select a.attname::text
                from unnest(c.conkey) with ordinality as k (attnum, ordinal)
                inner join pg_attribute as a on a.attrelid = c.conrelid and a.attnum = k.attnum
                order by k.ordinal
            )
    )
$$;
