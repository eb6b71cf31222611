-- SQL: what the changed rows of an input do to a model over it, as write_merge takes it.
create or replace function cdc.write_delta(compiled jsonb, model text) returns text
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
    is_nullable constant boolean := exists (
        select from jsonb_array_elements(compiled -> 'inputs') with ordinality as one (value, place)
        where value ->> 'model' = write_delta.model and compiled #> '{joins,nullable}' ? place::text
    );
    around record;
begin
    if is_nullable then
        around := cdc.write_left_terms(compiled, model);
    else
        select '' as context, cdc.write_terms(compiled, model) as terms into around;
    end if;
    return format(
        e'with %s%s\n\n        %s', cdc.write_changed(cdc.held_columns(compiled, model)), around.context,
        case when compiled ->> 'kind' = 'roll-up' then cdc.write_roll_up(compiled, around.terms) else around.terms end
    );
end
$$;
