-- The version of the models that a slot follows: another number whenever dbt has installed something else.
create or replace function cdc.models_version(slot text) returns bigint
language sql stable set search_path = pg_catalog, pg_temp as $$
    select coalesce(hashtextextended(string_agg(
        concat_ws(' ', own.model_name, own.relation_schema, own.relation_name, extract(epoch from own.installed_at)), e'\n'
        order by own.model_name collate "C"
    ), 0), 0)
    from cdc.registered_model as own
    where own.slot_name = slot
$$;
