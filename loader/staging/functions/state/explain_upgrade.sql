-- Why a model that follows is to be audited; null where the server's major version is as it was, and texts sort as the
-- database's indexes were made.
create or replace function cdc.explain_upgrade(counted_by integer) returns text
language sql stable set search_path = pg_catalog, pg_temp as $$
    select case
        when counted_by <> cdc.major_version() then
            'the server''s major version changed since it was counted or audited, and with that perhaps what its query gives'
        else (
            select format(
                'texts sort in another way than when its indexes were made: first `reindex database %1$I; alter database %1$I refresh collation version;`',
                d.datname
            )
            from pg_database as d
            where d.datname = current_database() and d.datcollversion <> pg_database_collation_actual_version(d.oid)
        )
    end
$$;
