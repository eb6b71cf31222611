-- SQL: a value for a column of a model's table, or an error where a length would round what others refuse.
create or replace function cdc.write_whole(value text, exact text, relation text) returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select case
        -- A cast would refuse more digits, also once the length is gone.
        when exact ~ '^numeric\(\d+,-?\d+\)$'
            then format('cdc.whole(%1$s, round(%1$s, %2$s), %3$L)', value, substring(exact from '(-?\d+)\)$'), relation)
        when exact ~ '^(numeric|time|interval)' then format('cdc.whole(%1$s, %1$s::%2$s, %3$L)', value, exact, relation)
        else value
    end
$$;
