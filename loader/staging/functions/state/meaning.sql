-- What the values of expressions depend on beside the query and its rows, in this server: relied_on says on what of
-- it a model does.
create or replace function cdc.meaning() returns jsonb
language sql stable set search_path = pg_catalog, pg_temp as $$
    select jsonb_build_object(
        'major version', current_setting('server_version_num')::integer / 10000,
        'time-zone data', (select max(log.zone_data) from cdc.slot_position as log),
        'collation version', pg_database_collation_actual_version(own.oid)
    )
    from pg_database as own
    where own.datname = current_database()
$$;
