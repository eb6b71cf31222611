-- When the loader of a slot last did something, as the target sees it: now, where that is a moment ago, as an idle one
-- asks four times a second, or where nothing is known of it.
create or replace function cdc.loader_seen(slot text) returns timestamptz
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
    return coalesce((
        select session.query_start
        from pg_class as c
        inner join pg_namespace as n on n.oid = c.relnamespace
        inner join pg_stat_activity as session on session.pid = cdc.holder_of(cdc.lock_key('loader', n.nspname, slot))
        where c.oid = 'cdc.slot_position'::regclass and session.query_start < clock_timestamp() - interval '2 s'
    ), clock_timestamp());
end
$$;
