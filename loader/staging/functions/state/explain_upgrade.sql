-- Why a model that follows is to be audited; null where the server's major version is as it was.
create or replace function cdc.explain_upgrade(counted_by integer) returns text
language sql stable set search_path = pg_catalog, pg_temp as $$
    select
        'the server''s major version changed since it was counted or audited, and with that perhaps what its query gives'
    where counted_by <> cdc.major_version()
$$;
