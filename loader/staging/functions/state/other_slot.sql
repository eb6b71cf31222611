-- Another slot that feeds the same model; else null.
create or replace function cdc.other_slot(slot text, model text, name text) returns text
language plpgsql stable parallel safe set search_path = pg_catalog, pg_temp as $$
begin
    return (
        select min(other.slot_name)
        from (
            select mark.slot_name from cdc.model_watermark as mark
            where mark.relation = model
            union all
            select registered.slot_name from cdc.registered_model as registered
            where registered.model_name = name
        ) as other
        where other.slot_name <> slot
    );
end
$$;
