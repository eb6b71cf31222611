-- SQL: what an index holds of a value, never too long for it. Equal values have equal ones; of numbers and times the
-- order is the same.
create or replace function cdc.bounded(expression text, type text) returns text
language sql immutable strict set search_path = pg_catalog, pg_temp as $$
    select case
        when cdc.is_short(type) then format('(%s)', expression)
        when type = 'numeric' then format(
            '(case when abs(%1$s) < 1e300 then (%1$s)::double precision when (%1$s) > 0 then ''Infinity''::double precision '
            'when (%1$s) < 0 then ''-Infinity''::double precision end)', expression
        )
        when cdc.is_text(type) then format('(hashtextextended(%s, 0))', expression)
        -- Bits and what a text search compares have no hash.
        else format('(hash_array_extended(array[%s%s], 0))', expression, case when type ~ '^("bit"|bit varying|tsvector|tsquery)$' then '::text' else '' end)
    end
$$;
