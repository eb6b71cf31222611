-- For a model's query: percentile_disc of values that each stand for so many rows, of which nulls count nothing. It is
-- what PostgreSQL's own gives of that many rows. Source: PostgreSQL documentation, "Ordered-Set Aggregate Functions".
create or replace function cdc.percentile_disc(fraction double precision, "values" anyarray, weights numeric[])
returns anyelement
language sql immutable parallel safe set search_path = pg_catalog, pg_temp as $$
    select reached.value
    from (
        select
            own.value,
            own.ordinal,
            sum(own.weight) over (order by own.ordinal) as rows,
            sum(own.weight) over () as all_rows
        from unnest("values", weights) with ordinality as own (value, weight, ordinal)
        where own.value is not null and own.weight > 0
    ) as reached
    where reached.rows >= ceil(fraction * reached.all_rows::double precision)::numeric
    order by reached.ordinal
    limit 1
$$;

comment on function cdc.percentile_disc(double precision, anyarray, numeric[]) is
    'percentile_disc of array_agg(x order by x), of which each stands for array_agg(weight order by x) rows.';
