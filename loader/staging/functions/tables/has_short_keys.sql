-- Whether a fact's table has the unique index of its key: it has none if a key once was too long for an index.
create or replace function cdc.has_short_keys(target regclass) returns boolean
language sql stable set search_path = pg_catalog, pg_temp as $$
    select exists (select from pg_index as x where x.indrelid = target and x.indisunique and x.indnullsnotdistinct)
$$;
