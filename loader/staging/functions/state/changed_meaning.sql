-- What has changed in the server of what a model relies on, from one meaning() to another; null if nothing.
create or replace function cdc.changed_meaning(declaration jsonb, former jsonb, now jsonb) returns text[]
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select array_agg(part.key order by part.key)
    from jsonb_each(now) as part
    -- What was not known then has not changed.
    where declaration -> 'relies_on' ? part.key and part.value <> former -> part.key and former -> part.key <> 'null'
$$;
