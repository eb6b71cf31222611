-- A slot whose changes come to a model over models: the first by its name.
create or replace function cdc.feeding_slot(model text) returns text
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
    select min(installed.slot_name) from cdc.inputs_of(array[model]) as below (relation)
    inner join cdc.installed_model as installed on installed.relation = below.relation
$$;
