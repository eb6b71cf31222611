-- A date, timestamp or timestamptz as a text whose order under the collation "C" is that of the times in UTC;
-- null where the text is none of them. Infinity, and the years before 1 and after 9999, are only known to be
-- before or after all others.
create or replace function cdc.time_order(value text) returns text
language plpgsql immutable strict parallel unsafe set search_path = pg_catalog, pg_temp as $$
begin
    return case
        when value ~ '^(-infinity|\d{4,}-\d\d-\d\d.* BC)$' then ''
        when value ~ '^(infinity|\d{5,}-\d\d-\d\d.*)$' then 'infinity'
        when right(value, 3) = '+00' then case when cdc.takes('timestamptz', value) then left(value, -3) end
        when cdc.takes(case when length(value) = 10 then 'date' else 'timestamp' end, value) then value
    end;
end
$$;

comment on function cdc.time_order(text) is
    'A text that is in the order of the times: what at_least and below of a declaration compare.';
