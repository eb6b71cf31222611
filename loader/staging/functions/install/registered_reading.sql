-- What is registered of a model, and how its query was read then.
create or replace function cdc.registered_reading(slot text, model text, out declaration jsonb, out reading jsonb)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
    select fact.declaration, fact.reading into declaration, reading
    from cdc.fact where fact.slot_name = slot and fact.fact_name = model;
end
$$;
