-- These models and all that they read, at any depth and in whatever slot.
create or replace function cdc.inputs_of(models text[]) returns setof text
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
    return query
    with recursive below as (
        select unnest(models) collate "C" as relation
        union
        select input.input_relation from below inner join cdc.dependent_input as input on input.relation = below.relation
    )

    select below.relation from below;
end
$$;
