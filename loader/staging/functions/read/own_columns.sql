-- The columns of the model on one side of a join that its condition compares by = with something else, among all that
-- it demands. A moment may equal two times that differ, where a zone skips an hour or a day: is_twofold.
create or replace function cdc.own_columns(
    condition jsonb, query jsonb, ctes jsonb, model jsonb, side jsonb
) returns table (name text, is_twofold boolean)
language sql stable set search_path = pg_catalog, pg_temp as $$
    select
        own.origin ->> 1,
        cdc.node_type(demanded.sides -> 0) <> cdc.node_type(demanded.sides -> 1)
        and 'timestamptz'::regtype in (cdc.node_type(demanded.sides -> 0), cdc.node_type(demanded.sides -> 1))
    from cdc.equal_sides(condition) as demanded
    cross join generate_series(0, 1) as number
    cross join lateral (select cdc.origin_of(demanded.sides -> number, query, ctes) as origin) as own
    -- The other side is of the other models: else it would be a condition on a row alone, which finds none. Of a
    -- sub-select that is said of all that has the number of a table there.
    where
        own.origin -> 0 = model
        and not (
            select coalesce(bool_or(side @? format('$.**.rtindex ? (@ == "%s")', variable.value ->> 'varno')::jsonpath), true)
            from jsonb_path_query(demanded.sides -> (1 - number), 'strict $.** ? (@._ == "VAR")') as variable (value)
        )
        -- Of what is compared as char(n), rows that meet one row may differ in blanks.
        and cdc.node_type(demanded.sides -> number) <> 'bpchar'::regtype
    order by demanded.ordinal, number
$$;
