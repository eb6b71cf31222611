-- Make an index on these columns where no index begins with them. Not `create index if not exists`: it locks the
-- table before it looks, and so stops autovacuum.
create or replace function cdc.keep_index(target regclass, columns text[]) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    if not exists (
        select from pg_index as x
        where
            x.indrelid = target
            and x.indpred is null
            and columns = array(
                select a.attname::text
                from unnest(x.indkey) with ordinality as k (attnum, place)
                inner join pg_attribute as a on a.attrelid = x.indrelid and a.attnum = k.attnum
                order by k.place
            )
    ) then
        execute format('create index on %s (%s)', target, cdc.quoted(columns));
    end if;
end
$$;
