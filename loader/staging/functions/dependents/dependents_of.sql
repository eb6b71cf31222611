-- The models that read these ones, at any depth.
create or replace function cdc.dependents_of(models text[]) returns setof text
language plpgsql stable set search_path = pg_catalog, pg_temp set plan_cache_mode = force_generic_plan as $$
begin
    return query
    with recursive dependent as (
        select input.relation from cdc.dependent_input as input where input.input_relation = any (models)
        union
        select input.relation from dependent inner join cdc.dependent_input as input on input.input_relation = dependent.relation
    )

    select dependent.relation from dependent;
end
$$;
