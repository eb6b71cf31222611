-- Before a model is installed with another declaration: let what the former one has counted and built count for this.
-- The baseline is production's: a copy takes nothing from it.
create or replace function cdc.keep_rows(slot text, model text, name text, declaration jsonb) returns void
language sql set search_path = pg_catalog, pg_temp as $$
    update cdc.model_watermark as mark set declaration = keep_rows.declaration
    from cdc.installed_model as stored
    where
        (stored.slot_name, stored.relation) = (slot, model)
        and (mark.slot_name, mark.relation, mark.declaration) = (slot, model, stored.declaration);
    update cdc.baseline as counted set declaration = keep_rows.declaration
    from cdc.registered_model as stored
    where
        (stored.slot_name, stored.relation_schema || '.' || stored.relation_name) = (slot, model)
        and (counted.slot_name, counted.model_name, counted.declaration) = (slot, keep_rows.name, stored.declaration);
$$;
