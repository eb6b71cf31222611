-- Another slot whose rows are in the model and that is not registered and seeded for this declaration; null where
-- there is none. A rebuild by another declaration takes the rows of all slots away.
create or replace function cdc.unready_slot(slot text, model text, fact text, declaration jsonb) returns text
language plpgsql stable parallel safe set search_path = pg_catalog, pg_temp as $$
begin
    return (
        select min(other.slot_name)
        from cdc.model_watermark as other
        left join cdc.fact as registered
            on
                registered.slot_name = other.slot_name
                and registered.fact_name = fact
                and registered.declaration = unready_slot.declaration
        left join cdc.baseline as counted
            on
                counted.slot_name = registered.slot_name
                and counted.fact_name = registered.fact_name
                and counted.declaration = unready_slot.declaration
        where
            other.model_name = model
            and other.slot_name <> slot
            and other.declaration is distinct from unready_slot.declaration
            and counted.slot_name is null
    );
end
$$;
