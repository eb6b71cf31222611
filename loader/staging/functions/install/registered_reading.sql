-- What is registered of a model, how its query was read then, and whether a change was left out of its rows.
create or replace function cdc.registered_reading(
    slot text, model text, out declaration jsonb, out reading jsonb, out lacks_changes boolean
)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
    select registered_model.declaration, registered_model.reading, coalesce(mark.rejected_lsn, mark.lost_lsn) is not null
    into declaration, reading, lacks_changes
    from cdc.registered_model
    left join cdc.model_watermark as mark
        on mark.slot_name = slot and mark.relation = registered_model.relation_schema || '.' || registered_model.relation_name
    where registered_model.slot_name = slot and registered_model.model_name = model;
end
$$;
