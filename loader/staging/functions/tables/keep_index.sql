-- Make an index on these columns where no index begins with them. Not `create index if not exists`: it locks the
-- table before it looks, and so stops autovacuum. Of the `short` columns, texts of any length, it has those that fit.
create or replace function cdc.keep_index(target regclass, columns text[], short text[] default '{}') returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    condition constant text := (
        select string_agg(format('octet_length(%I) <= 1000', name), ' AND ' order by place)
        from unnest(short) with ordinality as texts (name, place)
    );
begin
    if not exists (
        select from pg_index as x
        where
            x.indrelid = target
            and translate(pg_get_expr(x.indpred, x.indrelid), '()', '') is not distinct from translate(condition, '()', '')
            and columns = array(
                select a.attname::text
                from unnest(x.indkey) with ordinality as k (attnum, place)
                inner join pg_attribute as a on a.attrelid = x.indrelid and a.attnum = k.attnum
                order by k.place
            )
    ) then
        execute format('create index on %s (%s)', target, cdc.quoted(columns)) || coalesce(' where ' || condition, '');
    end if;
end
$$;
