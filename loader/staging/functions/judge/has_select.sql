-- Whether an expression has a sub-select outside its aggregates.
create or replace function cdc.has_select(expression text) returns boolean
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select exists (
        select from unnest(cdc.find_aggregates(expression)) with ordinality as one (piece, ordinal)
        cross join lateral cdc.scan(one.piece) as scanned
        where one.ordinal % 2 = 1 and scanned.token = 'SELECT'
    )
$$;
