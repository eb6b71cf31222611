-- The models over these ones, at any depth.
create or replace function cdc.models_above(models text[]) returns setof text
language plpgsql stable set search_path = pg_catalog, pg_temp set plan_cache_mode = force_generic_plan as $$
begin
    return query
    with recursive above as (
        select input.model_name from cdc.downstream_input as input where input.input_name = any (models)
        union
        select input.model_name from above inner join cdc.downstream_input as input on input.input_name = above.model_name
    )

    select above.model_name from above;
end
$$;
