-- A JSON string of which only brackets can follow.
create or replace function cdc.json_string(token text) returns text
language plpgsql immutable strict parallel safe set search_path = pg_catalog, pg_temp as $$
begin
    return rtrim(token, '}]')::jsonb #>> '{}';
end
$$;
