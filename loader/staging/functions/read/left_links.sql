-- The columns that find a model on the right of a LEFT JOIN, each with its neighbour's: [["id", 1, "customer_id"]]. All
-- are of one neighbour; null where ON compares no column of the model with anything, and [["id", null, null, false]]
-- where with none of a neighbour: see own_columns. `equal` is as read_joins has it.
create or replace function cdc.left_links(
    equal jsonb, condition jsonb, query jsonb, ctes jsonb, right_model jsonb, right_side jsonb
) returns jsonb
language sql stable set search_path = pg_catalog, pg_temp as $$
    with pairs as (
        select ordinal, case when one -> 0 = right_model then one - 0 else jsonb_build_array(one -> 3, one -> 0, one -> 1) end as pair
        from jsonb_array_elements(equal) with ordinality as listed (one, ordinal)
        where right_model in (one -> 0, one -> 2)
    )

    select coalesce(jsonb_agg(pairs.pair order by pairs.ordinal), (
        -- Compared with an expression: nothing finds the rows on the left.
        select jsonb_agg(jsonb_build_array(own.name, null, null, own.is_twofold))
        from cdc.own_columns(condition, query, ctes, right_model, right_side) as own
    ))
    from pairs
    where pairs.pair -> 1 = (select first.pair -> 1 from pairs as first order by first.ordinal limit 1)
$$;
