-- The leaves whose replica identity is too narrow: as `identity_wide`, for all leaves at once.
select c.oid::bigint
from pg_class as c
where
    c.oid = any(%(leaves)s::oid[])
    and c.relreplident <> 'f'
    and not coalesce((
        select array_agg(a.attname::text) @> %(needed)s::text[]
        from pg_index as i
        cross join unnest(i.indkey) with ordinality as k (attnum, ordinal)
        inner join pg_attribute as a on a.attrelid = i.indrelid and a.attnum = k.attnum
        where
            i.indrelid = c.oid
            and i.indimmediate
            and k.ordinal <= i.indnkeyatts
            and case c.relreplident when 'i' then i.indisreplident when 'd' then i.indisprimary end
    ), false)
