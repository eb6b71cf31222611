-- The columns of two models that a condition compares by =, among all that it demands: [[1, "customer_id", 2, "id"]].
create or replace function cdc.equal_columns(condition jsonb, query jsonb, ctes jsonb) returns jsonb
language sql stable set search_path = pg_catalog, pg_temp as $$
    select coalesce(jsonb_agg(origin.one || origin.other order by demanded.ordinal), '[]')
    from cdc.equal_sides(condition) as demanded
    cross join lateral (
        select
            cdc.origin_of(demanded.sides -> 0, query, ctes) as one,
            cdc.origin_of(demanded.sides -> 1, query, ctes) as other
    ) as origin
    where origin.one -> 0 <> origin.other -> 0
$$;
