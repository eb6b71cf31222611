-- Whether an index is the one that is needed, or begins with the same columns, in whatever order.
create or replace function cdc.index_serves(index oid, needed jsonb) returns boolean
language sql stable set search_path = pg_catalog, pg_temp as $$
    select c.relname = needed ->> 'name' or (
        m.amname = 'btree' and i.indisvalid and i.indpred is null
        and array(
            select a.attname::text
            from unnest((i.indkey::smallint[])[0:wanted.width - 1]) as key (number)
            inner join pg_attribute as a on a.attrelid = i.indrelid and a.attnum = key.number
        ) @> wanted.names
    )
    from pg_index as i
    inner join pg_class as c on c.oid = i.indexrelid
    inner join pg_am as m on m.oid = c.relam
    cross join lateral (
        select array_agg(value) as names, count(*)::integer as width from jsonb_array_elements_text(nullif(needed -> 'plain_names', 'null'))
    ) as wanted
    where i.indexrelid = index
$$;
