-- Forget what is known of a model's relation; its table stays.
create or replace function cdc.forget_relation(slot text, model text) returns void
language sql set search_path = pg_catalog, pg_temp as $$
    delete from cdc.model_watermark as own where own.slot_name = slot and own.relation = model;
    delete from cdc.ignored_delete as own where own.slot_name = slot and own.relation = model;
    delete from cdc.computed_change as own where own.slot_name = slot and own.relation = model;
    delete from cdc.installed_model as own where own.slot_name = slot and own.relation = model
$$;
