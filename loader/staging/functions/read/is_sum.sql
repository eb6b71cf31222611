-- Whether an aggregate is a sum over rows, from which one can be taken away: count(*), count(x), and sum() and avg() of
-- integers and numerics.
create or replace function cdc.is_sum(aggregate oid) returns boolean
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select aggregate in (2803, 2147, 2107, 2108, 2109, 2114, 2100, 2101, 2102, 2103)
$$;
