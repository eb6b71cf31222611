-- The columns of two models that a condition compares by =, among all that it demands: [[1, "customer_id", 2, "id"]].
create or replace function cdc.equal_columns(condition jsonb, query jsonb, ctes jsonb) returns jsonb
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
    found jsonb := '[]';
    part jsonb;
    one jsonb;
    other jsonb;
begin
    if condition ->> '_' = 'BOOLEXPR' and condition ->> 'boolop' = 'and' then
        for part in select value from jsonb_array_elements(condition -> 'args') loop
            found := found || cdc.equal_columns(part, query, ctes);
        end loop;
    elsif condition ->> '_' = 'OPEXPR' and exists (
        select from pg_operator as o where o.oid = (condition ->> 'opno')::oid and o.oprname = '=' and o.oprcanmerge
    ) then
        one := cdc.origin_of(condition #> '{args,0}', query, ctes);
        other := cdc.origin_of(condition #> '{args,1}', query, ctes);
        if one -> 0 <> other -> 0 then
            found := jsonb_build_array(one || other);
        end if;
    end if;
    return found;
end
$$;
