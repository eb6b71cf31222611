-- The tables that are truncated in a part of the log.
create or replace function cdc.truncated_tables(slot text, from_lsn pg_lsn, to_lsn pg_lsn) returns text[]
language sql stable set search_path = pg_catalog, pg_temp as $$
    select array_agg(distinct (parsed.message ->> 'schema') || '.' || (parsed.message ->> 'table'))
    from cdc.change_log as log
    cross join lateral (select cdc.jsonb_or_null(log.payload) as message) as parsed
    where
        log.slot_name = slot
        and log.commit_lsn >= from_lsn
        and log.commit_lsn < to_lsn
        -- The condition of the index change_log_truncates, word for word.
        and (action is null or action = 'T')
        and parsed.message ->> 'action' = 'T'
$$;
