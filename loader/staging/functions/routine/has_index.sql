-- Whether an index is there that serves as one that is needed.
create or replace function cdc.has_index(needed jsonb) returns boolean
language sql stable set search_path = pg_catalog, pg_temp as $$
    select exists (
        select from pg_index as i where i.indrelid = to_regclass(needed ->> 'relation') and cdc.index_serves(i.indexrelid, needed)
    )
$$;
