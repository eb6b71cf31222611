-- Whether a rejected change lacks its old row, or a large value of it: what it changes is not known, and a seed alone
-- can tell.
create or replace function cdc.is_lost(change cdc.change) returns boolean
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select change.action in ('I', 'U', 'D')
        and (change.missing is not null or coalesce(change.problem = 'the replica identity carries no old row', false))
        or coalesce(change.problem = (cdc.not_held(null)).problem, false)
$$;
