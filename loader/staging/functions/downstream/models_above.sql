-- The models over these ones, at any depth.
create or replace function cdc.models_above(models text[]) returns setof text
language plpgsql stable set search_path = pg_catalog, pg_temp set plan_cache_mode = force_generic_plan as $$
begin
    return query
    with recursive above as (
        select input.relation from cdc.downstream_input as input where input.input_relation = any (models)
        union
        select input.relation from above inner join cdc.downstream_input as input on input.input_relation = above.relation
    )

    select above.relation from above;
end
$$;
