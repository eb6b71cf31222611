-- A JSON string of which only brackets can follow, three at most. By rtrim a long one would take twelve times its size,
-- and jsonb holds none of more than 256 MB.
create or replace function cdc.json_string(token text) returns text
language plpgsql immutable strict parallel safe set search_path = pg_catalog, pg_temp as $$
begin
    return left(token, length(rtrim(right(token, 4), '}]')) - 4)::json #>> '{}';
end
$$;
