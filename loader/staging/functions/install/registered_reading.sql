-- What is registered of a model, and how its query was read then.
create or replace function cdc.registered_reading(slot text, model text, out declaration jsonb, out reading jsonb)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
    select registered_model.declaration, registered_model.reading into declaration, reading
    from cdc.registered_model where registered_model.slot_name = slot and registered_model.declared_name = model;
end
$$;
