-- SQL: what a model's routines rely on, whoever calls them. The planner overestimates groups and would sort wide
-- rows; the plan of the first call stays; a row that somebody has locked is waited for shortly, because the other
-- models wait too. For the abbreviations of zones PostgreSQL reads a file at each call, so they are pinned only where
-- they may matter.
create or replace function cdc.routine_pins(compiled jsonb) returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select 'set search_path = pg_catalog, pg_temp set row_security = off set jit = off set enable_sort = off '
        || 'set plan_cache_mode = force_generic_plan set array_nulls = on set lock_timeout = ''100ms'' '
        || format('set timezone = %L', compiled ->> 'timezone')
        -- A hash finds few groups in a large table, however small it was when the plan was made.
        || case when cdc.key_hash(compiled) is not null then ' set enable_seqscan = off' else '' end
        || case when (compiled ->> 'is_zoned')::boolean then ' set timezone_abbreviations = ''Default''' else '' end
$$;
