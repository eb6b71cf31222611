-- The two sides of each = among all that a condition demands, in their order.
create or replace function cdc.equal_sides(condition jsonb) returns table (sides jsonb, ordinal bigint[])
language sql stable set search_path = pg_catalog, pg_temp as $$
    with recursive demanded as (
        select condition as part, array[]::bigint[] as ordinal
        union all
        select one.value, demanded.ordinal || one.ordinal
        from demanded
        cross join jsonb_array_elements(demanded.part -> 'args') with ordinality as one (value, ordinal)
        where demanded.part ->> '_' = 'BOOLEXPR' and demanded.part ->> 'boolop' = 'and'
    )

    select demanded.part -> 'args', demanded.ordinal
    from demanded
    inner join pg_operator as o on o.oid = (demanded.part ->> 'opno')::oid and o.oprname = '=' and o.oprcanmerge
    where demanded.part ->> '_' = 'OPEXPR'
$$;
