-- SQL: what an index holds of a value, never too long for it. Equal values have equal ones; of numbers and times the
-- order is the same. Null where a type has no such expression.
create or replace function cdc.bounded(expression text, type text) returns text
language sql immutable strict set search_path = pg_catalog, pg_temp as $$
    select case
        when type ~ '^(boolean|smallint|integer|bigint|uuid|date|real|double precision|(time|timestamp) .*)$' then format('(%s)', expression)
        when type = 'numeric' then format(
            '(case when abs(%1$s) < 1e300 then (%1$s)::double precision when (%1$s) > 0 then ''Infinity''::double precision '
            'when (%1$s) < 0 then ''-Infinity''::double precision end)', expression
        )
        when cdc.is_text(type) then format('(left(%s, 100))', expression)
    end
$$;
