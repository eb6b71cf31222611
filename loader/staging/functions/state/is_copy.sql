-- Whether one of these models of a slot is a copy in another schema than the one that loader setup registered, as that
-- of a developer. It is applied like the others, and its trouble is not theirs.
create or replace function cdc.is_copy(slot text, models text[]) returns boolean
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
    return exists (
        select from cdc.installed_model as installed
        inner join cdc.registered_model as registered
            on registered.slot_name = installed.slot_name and registered.model_name = installed.model_name
        where
            installed.slot_name = slot
            and installed.relation = any (models)
            and registered.relation_schema || '.' || registered.relation_name <> installed.relation
    ) or exists (
        -- Nobody registers where a model over models is: it may read production's, as by dbt's --defer.
        select from cdc.dependent_model as own
        inner join cdc.dependent_model as other
            on other.project = own.project and other.model_name = own.model_name and other.relation <> own.relation
        cross join (select array_agg(registered.relation_schema) as names from cdc.registered_model as registered) as schemas
        where
            own.relation = any (models)
            and split_part(own.relation, '.', 1) <> all (schemas.names)
            and split_part(other.relation, '.', 1) = any (schemas.names)
    );
end
$$;
