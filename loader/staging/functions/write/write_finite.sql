-- SQL: an expression of a value that is finite, or another one where it is NaN or an infinity.
create or replace function cdc.write_finite(value text, finite text, otherwise text default 'null') returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select format('case when %s in (''NaN'', ''Infinity'', ''-Infinity'') then %s else %s end', value, otherwise, finite)
$$;
