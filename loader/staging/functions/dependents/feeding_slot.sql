-- A slot whose changes come to a model over models: the first by its name.
create or replace function cdc.feeding_slot(model text) returns text
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
    with recursive below as (
        select input.input_relation from cdc.dependent_input as input where input.relation = model
        union
        select input.input_relation from below inner join cdc.dependent_input as input on input.relation = below.input_relation
    )

    select min(installed.slot_name) from below inner join cdc.installed_model as installed on installed.relation = below.input_relation
$$;
