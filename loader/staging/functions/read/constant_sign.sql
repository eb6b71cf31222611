-- The sign of a constant number in a parse tree, which prints its bytes; of a numeric whether it is 0 alone.
create or replace function cdc.constant_sign(fields jsonb) returns integer
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select case
        when fields ->> 'constisnull' = 'true' then null
        -- Four bytes say how long it is, two hold its sign and scale; its digits follow.
        when fields ->> 'consttype' = '1700' then case when cardinality(bytes) > 6 then 2 else 0 end
        when 0 = all (bytes) then 0
        when bytes[cardinality(bytes)] < 0 or bytes[cardinality(bytes)] > 127 then -1
        else 1
    end
    from (select string_to_array(substring(fields ->> 'constvalue' from '\[ (.*) \]'), ' ')::integer[] as bytes) as own
$$;
