-- Whether one of these models of a slot is a copy in another schema than the one that loader setup registered, as that
-- of a developer. It is applied like the others, and its trouble is not theirs.
create or replace function cdc.is_copy(slot text, models text[]) returns boolean
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
    return exists (
        select from cdc.installed_model as installed
        inner join cdc.registered_model as registered
            on registered.slot_name = installed.slot_name and registered.declared_name = installed.declared_name
        where
            installed.slot_name = slot
            and installed.model_name = any (models)
            and registered.relation_schema || '.' || registered.relation_name <> installed.model_name
    );
end
$$;
