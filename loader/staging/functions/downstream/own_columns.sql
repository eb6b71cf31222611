-- The columns of a model that a condition compares by = with something else, among all that it demands.
create or replace function cdc.own_columns(condition jsonb, query jsonb, ctes jsonb, model jsonb) returns text[]
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
    found text[] := '{}';
    part jsonb;
    origin jsonb;
begin
    if condition ->> '_' = 'BOOLEXPR' and condition ->> 'boolop' = 'and' then
        for part in select value from jsonb_array_elements(condition -> 'args') loop
            found := found || cdc.own_columns(part, query, ctes, model);
        end loop;
    elsif condition ->> '_' = 'OPEXPR' and exists (
        select from pg_operator as o where o.oid = (condition ->> 'opno')::oid and o.oprname = '=' and o.oprcanmerge
    ) then
        for place in 0..1 loop
            origin := cdc.origin_of(condition -> 'args' -> place, query, ctes);
            -- The other side is of the other models: else it would be a condition on a row alone, which finds none.
            if origin -> 0 = model and not cdc.reads_model(condition -> 'args' -> (1 - place), query, ctes, model) then
                found := found || (origin ->> 1);
            end if;
        end loop;
    end if;
    return found;
end
$$;
