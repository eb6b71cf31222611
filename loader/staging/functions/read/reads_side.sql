-- Whether an expression of a join's condition reads a column of a side of the join, or no column at all. Of a
-- sub-select that is said of all that has the number of a table there.
create or replace function cdc.reads_side(expression jsonb, side jsonb) returns boolean
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select coalesce(bool_or(side @? format('$.**.rtindex ? (@ == "%s")', variable.value ->> 'varno')::jsonpath), true)
    from jsonb_path_query(expression, 'strict $.** ? (@._ == "VAR")') as variable (value)
$$;
